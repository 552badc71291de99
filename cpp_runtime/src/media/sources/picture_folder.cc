#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/open_failure.h"
#include "edgepipe/picture_source.h"
#include "media/pictures/pnm_header.h"
#include "media/sources/pacer.h"

namespace edgepipe {
namespace {

/// In lower case: cameras also write DSC_0001.JPG.
std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  for (char& letter : suffix) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return suffix;
}

bool is_jpeg(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".jpg" || suffix == ".jpeg";
}

bool is_picture(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return is_jpeg(path) || suffix == ".png" || suffix == ".ppm" || suffix == ".pgm";
}

/// Pictures that `edgepipe run` reads and this program does not. In a folder they are refused, so
/// that both give a line for the same files.
bool is_other_picture(const std::filesystem::path& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".bmp" || suffix == ".tif" || suffix == ".tiff" || suffix == ".webp";
}

Status unsupported(const std::filesystem::path& path) {
  return Status(Code::kUnsupported,
                path.string() + ": found a " + suffix_of(path) +
                    " picture, expected .ppm, .pgm, .jpg, .jpeg or .png",
                "convert it to .png, for example with ffmpeg");
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
    Picture picture{.format = PixelFormat::kJpeg, .bytes = mapped->bytes()};
    if (suffix_of(path) == ".png") {
      picture.format = PixelFormat::kPng;
    } else if (!is_jpeg(path)) {
      Result<Picture> parsed = parse_pnm(mapped->bytes(), most_pixels_);
      if (!parsed.ok()) return parsed.status().with_context(path.string());
      picture = *parsed;
    }
    ++taken_;
    lease = PictureLease(picture, mapped, 0);
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
  return is_picture(path) || std::filesystem::is_directory(path, error);
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
    if (other != files.end()) return unsupported(*other);
    if (files.empty()) {
      return Status(Code::kNotFound,
                    path.string() + ": no pictures, expected .ppm, .pgm, .jpg, .jpeg or .png");
    }
  } else if (!std::filesystem::exists(path, error)) {
    const std::string reason = error ? error.message() : "no such folder or picture";
    return Status(Code::kNotFound, path.string() + ": " + reason, "check the name");
  } else if (is_other_picture(path)) {
    return unsupported(path);
  } else if (!is_picture(path)) {
    return Status(Code::kUnsupported,
                  path.string() + ": not a picture, expected .ppm, .pgm, .jpg, .jpeg or .png");
  } else {
    files.push_back(path);
  }
  return std::unique_ptr<PictureSource>(
      std::make_unique<PictureFolder>(path.string(), std::move(files), pace, most_pixels));
}

}  // namespace edgepipe
