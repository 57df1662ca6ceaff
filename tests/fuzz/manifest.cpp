// Bytes as a manifest, with the hash that they have and with one that holds: a Manifest that keeps
// its promises and reads back from its own text, or UserError with code 4.
#include "checkpoint/manifest.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/cover.h"
#include "fuzz/target.h"

namespace fourfold::checkpoint {
namespace {

void read(const std::string& text) {
  try {
    const Manifest manifest = parse_manifest(text, "manifest.json");
    for (const StoredTensor& tensor : manifest.tensors)
      require(find_gap_or_overlap(tensor).empty(), "slices cover each tensor once");
    for (const StoredFile& file : manifest.files)
      require(file.name.find('/') == std::string::npos, "a file's name leads nowhere");
    require(parse_manifest(to_text(manifest), "again") == manifest,
            "a manifest reads back from its own text");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::no_checkpoint, "a bad manifest ends with its own code");
    for (const char c : std::string_view(error.what()))
      require(static_cast<unsigned char>(c) >= ' ', "no control character reaches a terminal");
  }
}

}  // namespace
}  // namespace fourfold::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  std::string text(reinterpret_cast<const char*>(bytes), size);
  checkpoint::read(text);
  // Else hardly anything would get past the hash.
  text.resize(std::min(text.size(), text.rfind(",\"self_hash\"")));
  checkpoint::read(text + ",\"self_hash\":\"" + hash128_text(text) + "\"}\n");
  return 0;
}
