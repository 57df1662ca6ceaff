// Bytes as a configuration file: a Config that reads back from its own text, or UserError with code
// 2. The file may extend itself and others, which have the same bytes.
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "config/print.h"
#include "fuzz/target.h"

namespace fourfold::config {
namespace {

Config load_text(const std::string& text) {
  const std::vector<std::string> files = {"fuzz.yaml"};
  return load(files, {}, [&](const std::string& path) -> std::variant<std::string, FileFault> {
    if (path.size() > 100) return FileFault{"cannot be read", "shorten it"};
    return text;
  });
}

}  // namespace
}  // namespace fourfold::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  try {
    const config::Config config = config::load_text(text);
    require(config::load_text(config::resolved_yaml(config)) == config,
            "a configuration reads back from its own text");
    require(config::load_text(config::shown_yaml(config)) == config,
            "a configuration with origins reads back from its own text");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_config, "a bad configuration ends with its own code");
    require(std::string(error.what()).find("error: ") != std::string::npos,
            "each problem of a configuration is marked");
  }
  return 0;
}
