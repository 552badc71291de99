#include "programs/output_file.h"

#include <cerrno>
#include <system_error>

namespace edgepipe::programs {

Result<OutputFile> create_file(const std::string& name) {
  OutputFile file(name == "-" ? stdout : std::fopen(name.c_str(), "wb"));
  if (!file) return Status(Code::kInvalidArgument, name + ": cannot be created");
  return file;
}

Status write_all(std::FILE* file, std::string_view bytes, const std::string& name) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0) {
    return {};
  }
  return Status(Code::kInvalidArgument,
                (name == "-" ? "standard output" : name) +
                    ": cannot be written: " + std::generic_category().message(errno));
}

Status write_file(const std::filesystem::path& path, std::string_view bytes) {
  Result<OutputFile> file = create_file(path.string());
  if (!file.ok()) return file.status();
  Status status = write_all(file->get(), bytes, path.string());
  if (!status.ok()) std::filesystem::remove(path);
  return status;
}

}  // namespace edgepipe::programs
