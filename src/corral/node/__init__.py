"""What is done on a host for the server: inspecting files of users, as they would."""
