// Replaces edgepipe-cam and edgepipe-run in the folders of supervised_place.py. The
// accelerator is a file, `accelerator` in the deploy folder, which serves one process at a time.
//
// As edgepipe-cam: says READY=1 to systemd, then runs. As edgepipe-run: runs for a moment.
// Exit codes: 0 done, 1 another process uses the accelerator.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* slash = strrchr(argv[0], '/');
  const int is_camera = strcmp(slash ? slash + 1 : argv[0], "edgepipe-cam") == 0;
  const int accelerator = open("../../accelerator", O_RDONLY);  // from ROOT/releases/N
  if (flock(accelerator, LOCK_EX | LOCK_NB) != 0) {
    fprintf(stderr, "edgepipe-run: error: another process uses the accelerator\n");
    return 1;
  }
  if (!is_camera) {
    usleep(300000);
    return 0;
  }
  struct sockaddr_un manager = {.sun_family = AF_UNIX};
  snprintf(manager.sun_path, sizeof manager.sun_path, "%s", getenv("NOTIFY_SOCKET"));
  if (manager.sun_path[0] == '@') manager.sun_path[0] = 0;
  const int out = socket(AF_UNIX, SOCK_DGRAM, 0);
  sendto(out, "READY=1", 7, 0, (struct sockaddr*)&manager,
         (socklen_t)(sizeof manager.sun_family + strlen(getenv("NOTIFY_SOCKET"))));
  for (;;) {
    sleep(5);
    sendto(out, "WATCHDOG=1", 10, 0, (struct sockaddr*)&manager,
           (socklen_t)(sizeof manager.sun_family + strlen(getenv("NOTIFY_SOCKET"))));
  }
}
