// edgepipe-run: runs a bundle on frames from a file or standard input.
#include "edgepipe/programs.h"

int main(int argc, char** argv) { return edgepipe::programs::run_main(argc, argv); }
