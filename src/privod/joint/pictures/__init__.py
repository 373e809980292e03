"""Pictures of joint questions."""
