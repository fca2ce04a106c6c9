"""Jobs as containers of this host's Docker daemon.

container_runtime   implements the core's runtime: a launch is a process with a supervisor, and it runs a *runner*
runner              the program of one launch: makes the container, copies its output, ends as it ends
container_request   the request to Docker, made from a launch. Pure
site                the site's limits on jobs' containers. Pure
records             the files that server and runner exchange about one container
daemon_calls        calls to the Docker daemon, which may be restarted under them
pulling             gets an image, with the credentials of the job's user
after_end           the report of a launch whose container is over
presence            whether this host has Docker
container_names     names of containers that Corral did not make
output              the container's output, once and in order
"""
