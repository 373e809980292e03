"""What every request passes: connections, middleware, authentication, authorization, limits."""
