// Bytes as the config.json of Hugging Face: a model whose own config.json gives it again, or
// UserError with code 4.
#include <optional>
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "interop/hub_family.h"

namespace {

using namespace fourfold;

/// None where no class of today's transformers takes such sizes.
std::optional<Json> config_of(const interop::HubModel& model) {
  try {
    return model.family->config(model.spec, {});
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_config, "a model that cannot go out says why");
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const interop::HubModel model = interop::parse_hub_config(text, "fuzz");
    const auto config = config_of(model);
    if (!config) return 0;
    const interop::HubModel again = interop::parse_hub_config(config->dump(), "again");
    require(again.spec == model.spec && again.notes.empty(), "a model reads back from its text");
    require(!model.family->tensors(model.spec).empty(), "a model has tensors");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::no_checkpoint, "a bad config.json ends with its own code");
  }
  return 0;
}
