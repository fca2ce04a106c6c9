"""What is done on a host for the server: looking at files of users, as they would."""
