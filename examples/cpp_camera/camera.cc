// camera: what a bundle sees in the pictures of a network camera, a video or a folder.
#include <edgepipe/picture_source.h>
#include <edgepipe/session.h>

#include <atomic>
#include <cstdio>
#include <utility>

int fail(const edgepipe::Status& status) {
  std::fprintf(stderr, "camera: %s\n%s\n", status.message().c_str(), status.hint().c_str());
  return 1;
}

int main(int count, char** words) {
  using namespace edgepipe;
  if (count != 3) return fail({Code::kInvalidArgument, "expected a bundle and a source"});
  Session::Options options;
  options.takes_pictures = options.live = true;
  auto session = Session::open(words[1], options);
  if (!session.ok()) return fail(session.status());
  const std::atomic<bool> stop{false};
  auto source = is_network_address(words[2]) ? open_network_camera(words[2], stop)
                : is_picture_path(words[2])  ? open_picture_folder(words[2], {})
                                             : open_video_file(words[2], {}, stop);
  if (!source.ok()) return fail(source.status());
  Pipeline& pipeline = (*session)->pipeline();
  PictureInput& pictures = (*session)->pictures();
  Postprocessor& results = (*session)->postprocessor();
  pictures.connect(*std::move(source));
  std::size_t in_flight = 0;
  for (bool more = true; more || in_flight > 0;) {
    if (more && pipeline.has_slot() && !pipeline.has_next()) {
      auto frame = pipeline.acquire(far_future());
      if (!frame.ok()) return fail(frame.status());
      const auto lent = pictures.lend(*frame, stop);  // waits for the camera; nothing is copied
      if (!lent.ok()) return fail(lent.status());
      if (!(more = *lent)) continue;
      if (auto sent = pipeline.submit(*std::move(frame)); !sent.ok()) return fail(sent.status());
      ++in_flight;
    } else {
      auto frame = pipeline.next(far_future());
      if (!frame.ok()) return fail(frame.status());
      const auto found = results.run(*frame);
      if (!found.ok()) return fail(found.status());
      const auto seen = results.in_picture(*found, pictures.placement(*frame));
      const std::string name = pictures.source().picture_name(frame->id());
      std::printf("%s\n", results.json_line(*frame, seen, name).c_str());
      --in_flight;
    }
  }
}
