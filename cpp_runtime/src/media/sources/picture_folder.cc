#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/open_failure.h"
#include "edgepipe/picture_source.h"
#include "media/pictures/pnm_header.h"
#include "media/sources/compressed_file.h"
#include "media/sources/pacer.h"

namespace edgepipe {
namespace {

constexpr const char* kExpected = ".bmp, .jpeg, .jpg, .pgm, .png or .ppm";

/// In lower case: cameras also write DSC_0001.JPG.
std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  for (char& letter : suffix) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return suffix;
}

bool is_pnm(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".ppm" || suffix == ".pgm";
}

bool is_picture(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return is_pnm(path) || suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png" ||
         suffix == ".bmp";
}

/// The name of a format that is not read; "" for others. In a folder such pictures are refused and
/// not skipped, so that no result is missing without a word.
std::string_view other_format(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  if (suffix == ".webp") return "WebP";
  return suffix == ".tif" || suffix == ".tiff" ? "TIFF" : "";
}

bool is_other_picture(const std::filesystem::path& path) { return !other_format(path).empty(); }

Status unsupported(const std::filesystem::path& path, std::string_view format) {
  return Status(
      Code::kUnsupported,
      path.string() + ": found a " + std::string(format) + " picture, expected " + kExpected,
      "convert it to PNG: ffmpeg -i IN OUT.png");
}

/// The picture of a file, without copying its pixels.
Result<Picture> parse_pnm(std::span<const std::byte> bytes, std::uint64_t most_pixels) {
  Result<PnmHeader> header = take_pnm_header(bytes);
  if (!header.ok()) return header.status();
  if (Status status = check_size(header->width, header->height, most_pixels); !status.ok()) {
    return status;
  }
  Picture picture{.format = header->gray ? PixelFormat::kGray : PixelFormat::kRgb,
                  .width = header->width,
                  .height = header->height};
  picture.row_bytes = packed_row_bytes(picture.format, picture.width);
  picture.bytes = bytes;
  if (Status status = check(picture); !status.ok()) {
    return Status(Code::kCorrupt, status.message());
  }
  return picture;
}

/// The picture of a file by its first bytes, since many have the name of another format. If they
/// are unknown, its name says which decoder explains what is wrong.
Result<Picture> parse(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      std::uint64_t most_pixels) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto whole = [bytes](PixelFormat format) {
    return Picture{.format = format, .bytes = bytes};
  };
  if (text.starts_with("\xff\xd8"sv)) return whole(PixelFormat::kJpeg);
  if (text.starts_with("\x89PNG"sv)) return whole(PixelFormat::kPng);
  if (text.starts_with("BM"sv)) return whole(PixelFormat::kBmp);
  const bool pnm = text.starts_with("P5"sv) || text.starts_with("P6"sv);
  const std::string_view other = compressed_format(bytes);
  if (!pnm && !other.empty()) return unsupported(path, other);
  if (pnm || is_pnm(path)) {
    Result<Picture> parsed = parse_pnm(bytes, most_pixels);
    return parsed.ok() ? parsed : parsed.status().with_context(path.string());
  }
  const std::string suffix = suffix_of(path);
  return whole(suffix == ".png"   ? PixelFormat::kPng
               : suffix == ".bmp" ? PixelFormat::kBmp
                                  : PixelFormat::kJpeg);
}

/// A file that stays in memory while its picture is lent.
class MappedPicture final : public PictureOwner {
 public:
  explicit MappedPicture(MappedFile file) : file_(std::move(file)) {}
  [[nodiscard]] std::span<const std::byte> bytes() const { return file_.bytes(); }
  void give_back(std::size_t /*buffer*/) override {}

 private:
  MappedFile file_;
};

class PictureFolder final : public PictureSource {
 public:
  PictureFolder(std::string name, std::vector<std::filesystem::path> files, const Pace& pace,
                std::uint64_t most_pixels)
      : name_(std::move(name)),
        files_(std::move(files)),
        loop_(pace.loop),
        pacer_(pace),
        most_pixels_(most_pixels) {}

  Result<bool> next(PictureLease& lease, const std::atomic<bool>& stop) override {
    const std::uint64_t number = taken_;
    if (!loop_ && number >= files_.size()) return false;
    if (!pacer_.wait(stop)) return false;
    const std::filesystem::path& path = files_[static_cast<std::size_t>(number % files_.size())];
    Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) return file.status();
    const auto mapped = std::make_shared<MappedPicture>(std::move(*file));
    Result<Picture> picture = parse(path, mapped->bytes(), most_pixels_);
    if (!picture.ok()) return picture.status();
    ++taken_;
    lease = PictureLease(*picture, mapped, 0);
    return true;
  }

  [[nodiscard]] SourceCounters counters() const override {
    return {.captured = taken_, .taken = taken_, .steps = pacer_.steps()};
  }

  [[nodiscard]] std::string picture_name(std::uint64_t number) const override {
    return files_[static_cast<std::size_t>(number % files_.size())].filename().string();
  }

  [[nodiscard]] std::string description() const override {
    return "pictures of " + name_ + ", " + std::to_string(files_.size()) +
           (files_.size() == 1 ? " file" : " files");
  }

 private:
  std::string name_;
  std::vector<std::filesystem::path> files_;
  bool loop_;
  Pacer pacer_;
  std::uint64_t most_pixels_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace

bool is_picture_path(const std::filesystem::path& path) {
  std::error_code error;
  return is_picture(path) || is_other_picture(path) || std::filesystem::is_directory(path, error);
}

bool is_one_pnm(const std::filesystem::path& path) {
  std::error_code error;
  if (!is_pnm(path) || !std::filesystem::is_regular_file(path, error)) return false;
  const std::uintmax_t file_bytes = std::filesystem::file_size(path, error);
  std::vector<char> head(4096);
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  std::span<const std::byte> bytes = std::as_bytes(std::span(head));
  const Result<PnmHeader> header = take_pnm_header(bytes);
  if (!header.ok()) return false;
  const auto format = header->gray ? PixelFormat::kGray : PixelFormat::kRgb;
  const std::size_t header_bytes = head.size() - bytes.size();
  return file_bytes == header_bytes + packed_bytes(format, header->width, header->height);
}

Result<std::unique_ptr<PictureSource>> open_picture_folder(const std::filesystem::path& path,
                                                           const Pace& pace,
                                                           std::uint64_t most_pixels) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path, error)) {
    std::filesystem::directory_iterator entries(path, error);
    for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
      if (is_picture(entries->path()) || is_other_picture(entries->path())) {
        files.push_back(entries->path());
      }
    }
    if (error) return open_failure(Code::kNotFound, path.string(), error.value());
    std::sort(files.begin(), files.end());
    const auto other = std::ranges::find_if(files, is_other_picture);
    if (other != files.end()) return unsupported(*other, other_format(*other));
    if (files.empty()) {
      return Status(Code::kNotFound, path.string() + ": no pictures, expected " + kExpected);
    }
  } else if (!std::filesystem::exists(path, error)) {
    const std::string reason = error ? error.message() : "no such folder or picture";
    return Status(Code::kNotFound, path.string() + ": " + reason, "check the name");
  } else if (is_other_picture(path)) {
    return unsupported(path, other_format(path));
  } else if (!is_picture(path)) {
    return Status(Code::kUnsupported, path.string() + ": not a picture, expected " + kExpected);
  } else {
    files.push_back(path);
  }
  return std::unique_ptr<PictureSource>(
      std::make_unique<PictureFolder>(path.string(), std::move(files), pace, most_pixels));
}

}  // namespace edgepipe
