// Bytes as the config.json of Hugging Face: a GPT-2 whose own config.json gives it again, or
// UserError with code 4.
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "interop/gpt2_config.h"
#include "interop/gpt2_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const interop::ImportedGpt2 model = interop::parse_gpt2_config(text, "fuzz");
    const interop::ImportedGpt2 again =
        interop::parse_gpt2_config(interop::gpt2_config(model.spec, {}).dump(), "again");
    require(again.spec == model.spec && again.notes.empty(), "a model reads back from its text");
    require(!interop::gpt2_tensors(model.spec).empty(), "a model has tensors");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::no_checkpoint, "a bad config.json ends with its own code");
  }
  return 0;
}
