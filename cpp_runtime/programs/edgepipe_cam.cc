// edgepipe-cam: runs a bundle on a camera, with a live page, JSON lines and recording.
#include "edgepipe/programs.h"

int main(int argc, char** argv) { return edgepipe::programs::cam_main(argc, argv); }
