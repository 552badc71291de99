#include "bundle/fingerprint.h"

#include <algorithm>
#include <string_view>

#include "base/json_reader.h"
#include "base/mapped_file.h"
#include "base/sysfs.h"
#include "bundle/known_boards.h"

namespace edgepipe {
namespace {

Status compare(Code code, const char* what, const std::string& found, const std::string& expected) {
  if (found == expected) return {};
  return {code,
          std::string("the programmed bitstream: ") + what + " is " + found +
              ", the bundle was built for " + expected,
          "program its bitstream with `edgepipe bitstream install`, or build the bundle again"};
}

Status other_board(const std::string& found, const std::string& expected) {
  return {Code::kOtherConfiguration,
          "the device tree: board is " + found + ", the bundle was built for " + expected,
          "build the bundle for this board, " + found};
}

std::string hertz(std::uint64_t clock_hz) { return std::to_string(clock_hz) + " Hz"; }

}  // namespace

const std::string_view kVersion = EDGEPIPE_VERSION;

Status check_version(const Fingerprint& fingerprint) {
  if (fingerprint.builder_version == kVersion) return {};
  return {Code::kOtherVersion,
          "runtime version is " + std::string(kVersion) + ", the bundle was built by " +
              fingerprint.builder_version,
          "build the bundle again with this version, or run it with the version that built it"};
}

Status check_machine(const std::string& board, const std::string& path) {
  const Result<std::string> list = read_attribute(path);
  if (list.status().code() == Code::kNotFound) return {};
  if (!list.ok()) return list.status();
  const std::span<const KnownBoard> known = known_boards();
  const auto named = [&board](const KnownBoard& other) { return other.name == board; };
  if (std::none_of(known.begin(), known.end(), named)) return {};
  std::string_view rest = *list;  // strings, each with a zero at its end
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const auto found = std::find_if(known.begin(), known.end(), [text](const KnownBoard& one) {
      return one.compatible == text;
    });
    if (found == known.end()) continue;
    if (found->name == board) return {};
    return other_board(std::string(found->name), board);
  }
  return {};
}

Status check_logic_record(const Fingerprint& fingerprint, const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (file.status().code() == Code::kNotFound) return {};
  if (!file.ok()) return file.status();
  Result<nlohmann::json> object = parse_json_object(file->bytes(), path);
  if (!object.ok()) return object.status();
  JsonReader reader(*object, path);
  const std::string configuration = reader.text("configuration");
  const std::string revision = reader.text("revision");
  const std::uint64_t clock_hz = reader.whole("clock_hz");
  const std::string bitstream = reader.text("path");
  if (!reader.status().ok()) return reader.status();

  Status status =
      compare(Code::kOtherConfiguration, "configuration", configuration, fingerprint.configuration);
  if (status.ok()) {
    status = compare(Code::kOtherRevision, "encoding revision", revision, fingerprint.revision);
  }
  if (status.ok()) {
    status = compare(Code::kOtherClock, "clock", hertz(clock_hz), hertz(fingerprint.clock_hz));
  }
  // An unpublished bitstream has no name to compare.
  if (status.ok() && !bitstream.empty() && !fingerprint.bitstream.empty()) {
    status = compare(Code::kOtherBitstream, "bitstream", bitstream, fingerprint.bitstream);
  }
  return status;
}

int exit_code(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kOtherConfiguration:
      return 10;
    case Code::kOtherRevision:
      return 11;
    case Code::kOtherClock:
      return 12;
    case Code::kOtherBitstream:
      return 13;
    case Code::kOtherVersion:
      return 14;
    case Code::kUnsigned:
      return 15;
    case Code::kOtherSigner:
      return 16;
    case Code::kAltered:
      return 17;
    case Code::kOlderRelease:
      return 18;
    case Code::kUnverifiable:
      return 19;
    default:
      return 1;
  }
}

}  // namespace edgepipe
