// Bytes as the config.json of Hugging Face: a model whose own config.json gives it again, or
// UserError with code 4.
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "interop/hub_family.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const interop::HubModel model = interop::parse_hub_config(text, "fuzz");
    const interop::HubModel again =
        interop::parse_hub_config(model.family->config(model.spec, {}).dump(), "again");
    require(again.spec == model.spec && again.notes.empty(), "a model reads back from its text");
    require(!model.family->tensors(model.spec).empty(), "a model has tensors");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::no_checkpoint, "a bad config.json ends with its own code");
  }
  return 0;
}
