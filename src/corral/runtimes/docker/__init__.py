"""Jobs as containers of this host's Docker daemon.

container_runtime   launches as the core knows them: each is a process with a supervisor, and that process is a *runner*
runner              the program of one launch: makes the container, copies its output, ends as it ends
body                what Docker is asked for, made of a launch. Pure
site                what the site lets jobs ask for. Pure
records             what server and runner tell each other of one container
daemon_calls        calls to the Docker daemon, which may be restarted under them
pulling             gets an image, with the credentials of the job's user
after_end           what the end of a container means for its launch
presence            whether this host has Docker
container_names     what containers of others are called
output              what the container writes, once and in order
"""
