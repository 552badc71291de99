"""The commands, with the line that ``edgepipe --help`` shows for each.

A command's module, ``<name>_command``, is imported only when that command is called: help and
version are printed without TVM, and what deploys to boards and watches them works without it.
"""

COMMANDS = {
    "models": "list networks with real weights, and get one with its description",
    "init": "write a network's description",
    "build": "compile a network for a board",
    "sign": "sign a bundle",
    "verify": "check who signed a bundle",
    "inspect": "show what a bundle contains, or what a network would become",
    "report": "show a bundle's network, costs and timing on one page",
    "run": "run a bundle on a video, a picture or a folder of pictures",
    "bench": "measure a bundle's rate, latency and stages, here or on a board",
    "accuracy": "compare a bundle with its float network, layer by layer and in the task's measure",
    "top": "watch running pipelines",
    "setup_board": "set up a board once over SSH",
    "deploy": "deploy a bundle to boards over SSH",
    "logs": "show the logs of pipelines on boards",
    "doctor": "examine a board over SSH",
    "measure": "measure what a board's accelerator and cores cost, for its file",
    "boards": "list the known boards",
    "bitstream": "check, convert and install bitstreams",
    "virtual_board": "an emulated Ultra96 to deploy to and test on",
    "rpc": "run and time stages on a board over TVM RPC",
}
