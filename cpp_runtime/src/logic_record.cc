#include "edgepipe/logic_record.h"

#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

#include "json_reader.h"

namespace edgepipe {
namespace {

Status compare(const char* what, const std::string& found, const std::string& expected) {
  if (found == expected) return {};
  return {Code::kUnsupported,
          std::string("the accelerator in this board's logic: ") + what + " is " + found +
              ", the bundle was built for " + expected +
              "; program its bitstream with `edgepipe bitstream install`, or build the "
              "bundle anew"};
}

}  // namespace

Status check_logic_record(const Accelerator& accelerator, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Result<nlohmann::json> object = parse_json_object(std::as_bytes(std::span(text)), path);
  if (!object.ok()) return object.status();
  JsonReader reader(*object, path);
  const std::string configuration = reader.text("configuration");
  const std::string revision = reader.text("revision");
  const std::uint64_t clock_hz = reader.whole("clock_hz");
  if (!reader.status().ok()) return reader.status();

  Status status = compare("configuration", configuration, accelerator.configuration());
  if (status.ok()) {
    status = compare("encoding revision", revision,
                     accelerator.revision == Revision::k0_0_1 ? "0.0.1" : "0.0.2");
  }
  if (status.ok()) {
    status = compare("clock", std::to_string(clock_hz) + " Hz",
                     std::to_string(accelerator.clock_hz) + " Hz");
  }
  return status;
}

}  // namespace edgepipe
