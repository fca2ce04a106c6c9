/* Runs a program COUNT times, SLOTS at once, with nothing around it: the floor under every launcher.
 * fork_floor COUNT SLOTS PROGRAM */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    char *const program[] = {argv[3], NULL}, *const environment[] = {NULL};
    int left = atoi(argv[1]), slots = atoi(argv[2]), running = 0;
    while (left || running) {
        if (left && running < slots) {
            pid_t child = fork();
            if (child < 0)
                return 1;
            if (child == 0) {
                execve(program[0], program, environment);
                _exit(127);
            }
            left--, running++;
        } else {
            int status;
            if (wait(&status) < 0 || status)
                return 1;
            running--;
        }
    }
    return 0;
}
