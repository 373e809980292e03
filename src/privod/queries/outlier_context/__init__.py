"""In which group does this person stand out? [Shafieinejad 2021]."""
