// The tests of the plug-in for GStreamer, which they load as any application would.
#include <gst/gst.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  GError* error = nullptr;
  GstPlugin* const plugin = gst_plugin_load_file(EDGEPIPE_TEST_PLUGIN, &error);
  if (plugin == nullptr) {
    g_printerr("%s\n", error->message);
    return 1;
  }
  const int failed = RUN_ALL_TESTS();
  gst_object_unref(plugin);
  gst_deinit();  // the leak tracer reports what is left
  return failed;
}
