// edgepipe-rpcd: a TVM RPC server on a board, with edgepipe's functions; see session_functions.h.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/console.h"
#include "base/guarded_main.h"
#include "base/nearest_word.h"
#include "base/open_failure.h"
#include "server.h"
#include "session_key.h"

namespace {

using edgepipe::print_line;
using edgepipe::print_lines;

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kWrongUse = 2;
constexpr std::size_t kLeastKeyBytes = 16;

constexpr const char* kHelp = R"(usage: edgepipe-rpcd [options]

Serves TVM's RPC protocol on 127.0.0.1, one session at a time, each in its own
process. To reach it from elsewhere, use an SSH tunnel. The first line on standard
output is "listening on 127.0.0.1:PORT with key KEY".

  --port N               port to listen on (default: 0, any free port)
  --key KEY              key that clients must send, 16 characters or more. Other users
                         can see it in the process list (default: a random key). With
                         --tracker: the name by which clients ask for this server
  --allow-root           allow running as root, where a session can do anything
  --folder DIR           folder for the files of sessions (default: the system's
                         folder for temporary files)
  --idle SECONDS         end a session after so many seconds without a request
                         (default: 600)
  --tracker HOST:PORT    offer sessions through this TVM RPC tracker
  --advertise HOST:PORT  address at which the tracker's clients reach this server,
                         such as the local end of a tunnel
  --until-eof            stop at the end of standard input, as when an SSH session ends

Exit codes: 0 stopped by a signal or at the end of input, 1 failure, 2 wrong use.
)";

constexpr std::array kOptions = {"--port", "--key",     "--allow-root", "--folder",
                                 "--idle", "--tracker", "--advertise",  "--until-eof"};

int stop_pipe = -1;

void on_signal(int) {
  const char byte = 0;
  static_cast<void>(!::write(stop_pipe, &byte, 1));
  static volatile sig_atomic_t stopping = 0;
  if (stopping != 0) return;
  stopping = 1;
  // If a clean end takes too long, e.g. because of a look-up of the tracker's name, the program
  // ends anyway. The session's process ends with it.
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 800'000}};
  static_cast<void>(::setitimer(ITIMER_REAL, &limit, nullptr));
}

void on_limit(int) { ::_exit(kOk); }

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_address(const std::string& text, std::string& host, std::uint16_t& port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  host = text.substr(0, colon);
  return parse_number(std::string_view(text).substr(colon + 1), port) && port != 0;
}

int wrong_use(const std::string& text) {
  print_line(stderr, "edgepipe-rpcd: " + text);
  print_line(stderr, "hint: edgepipe-rpcd --help");
  return kWrongUse;
}

int unknown_option(const std::string& name) {
  const std::vector<std::string> names(kOptions.begin(), kOptions.end());
  return wrong_use("unknown option '" + name + "'" + edgepipe::did_you_mean(name, names));
}

int failed(const edgepipe::Status& status) {
  edgepipe::print_failure("edgepipe-rpcd", status);
  return kFailed;
}

int rpcd_main(int argc, char** argv) {
  edgepipe::rpc::Server::Options options;
  edgepipe::rpc::Tracker::Options tracker;
  bool allow_root = false;
  std::error_code error;
  options.folder = std::filesystem::temp_directory_path(error);
  for (int index = 1; index < argc; ++index) {
    const std::string name = argv[index];
    if (name == "--help" || name == "-h") {
      print_lines(stdout, kHelp);
      return kOk;
    }
    if (name == "--allow-root") {
      allow_root = true;
      continue;
    }
    if (name == "--until-eof") {
      options.stop_on.push_back(STDIN_FILENO);
      continue;
    }
    if (std::ranges::find(kOptions, name) == kOptions.end()) return unknown_option(name);
    if (index + 1 == argc) return wrong_use(name + " needs a value");
    const std::string value = argv[++index];
    bool good = true;
    long long seconds = 0;
    if (name == "--port") {
      good = parse_number(value, options.port);
    } else if (name == "--key") {
      options.key = value;
      good = !value.empty() && value.find_first_of(" \t\n") == std::string::npos;
    } else if (name == "--folder") {
      options.folder = std::filesystem::absolute(value, error);
      good = std::filesystem::is_directory(options.folder, error);
    } else if (name == "--idle") {
      good = parse_number(value, seconds) && seconds > 0 && seconds < 1'000'000;
      options.idle = std::chrono::seconds(seconds);
    } else if (name == "--tracker") {
      good = parse_address(value, tracker.host, tracker.port);
    } else {  // --advertise
      good = parse_address(value, tracker.advertised_host, tracker.advertised_port);
    }
    if (!good) return wrong_use(std::string(name).append(": found '").append(value).append("'"));
  }
  if (!tracker.host.empty()) {
    options.tracker = tracker;
    if (options.key.empty()) return wrong_use("--tracker needs --key, the name to offer there");
  } else if (options.key.empty()) {
    options.key = edgepipe::rpc::random_key();
  } else if (options.key.size() < kLeastKeyBytes) {
    return wrong_use("--key: found " + std::to_string(options.key.size()) +
                     " characters, expected " + std::to_string(kLeastKeyBytes) + " or more");
  }
  if (::geteuid() == 0 && !allow_root) {
    return failed({edgepipe::Code::kInvalidArgument,
                   "refuses to run as root, because sessions run native code",
                   "run it as the user to whom setup.sh gave access to the accelerator, or with "
                   "--allow-root"});
  }
  options.log = [](const std::string& text) { print_line(stderr, "edgepipe-rpcd: " + text); };

  int ends[2];
  if (::pipe(ends) != 0) {
    return failed(edgepipe::open_failure(edgepipe::Code::kOutOfMemory, "a pipe", errno));
  }
  options.stop_on.push_back(ends[0]);
  stop_pipe = ends[1];
  ::signal(SIGALRM, on_limit);
  ::signal(SIGTERM, on_signal);
  ::signal(SIGINT, on_signal);
  // A lost client and an exceeded file size limit then make a write fail.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  const std::string key = options.key;
  auto server = edgepipe::rpc::Server::create(std::move(options));
  if (!server.ok()) return failed(server.status());
  print_line(stdout,
             "listening on 127.0.0.1:" + std::to_string((*server)->port()) + " with key " + key);
  std::fflush(stdout);
  const edgepipe::Status status = (*server)->run();
  return status.ok() ? kOk : failed(status);
}

}  // namespace

int main(int argc, char** argv) {
  return edgepipe::guarded_main("edgepipe-rpcd", [&] { return rpcd_main(argc, argv); });
}
