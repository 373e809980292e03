"""The curator as a server: a JSON interface, a console in the browser, tokens and roles."""
