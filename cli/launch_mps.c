/* MPS lets the kernels of several processes run on one GPU at the same time; without it they take
 * turns. A daemon of our own lives in a private folder and ends with the command. */
#define _GNU_SOURCE /* mkdtemp */
#include "cli/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL "nvidia-cuda-mps-control"

/* Runs the control program with an option or a line of input. True: it says all is well. */
static bool control(const char *option, const char *input) {
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(ends[0], STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(CONTROL, CONTROL, option, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    bool ok = pid > 0;
    if (ok && input) {
        ok = write(ends[1], input, strlen(input)) == (ssize_t)strlen(input);
    }
    close(ends[1]);
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && ok && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void folder_set(const struct launch_mps *m, const char *variable, const char *name) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", m->folder, name);
    mkdir(path, 0700);
    setenv(variable, path, 1);
}

bool launch_mps_start(struct launch_mps *m) {
    *m = (struct launch_mps){0};
    if (control(NULL, "get_server_list\n")) {
        return true;
    }
    snprintf(m->folder, sizeof m->folder, "/tmp/sluice-mps-XXXXXX");
    if (!mkdtemp(m->folder)) {
        return false;
    }
    folder_set(m, "CUDA_MPS_PIPE_DIRECTORY", "pipe");
    folder_set(m, "CUDA_MPS_LOG_DIRECTORY", "log");
    m->ours = true;
    if (!control("-d", NULL)) {
        launch_mps_stop(m);
        unsetenv("CUDA_MPS_PIPE_DIRECTORY");
        unsetenv("CUDA_MPS_LOG_DIRECTORY");
        return false;
    }
    return true;
}

/* What the daemon leaves: pipes, a lock, logs. */
static void folder_empty(const char *folder) {
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(127);
    }
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
}

void launch_mps_stop(struct launch_mps *m) {
    if (m->ours) {
        control(NULL, "quit -t 5\n");
        folder_empty(m->folder);
        m->ours = false;
    }
}
