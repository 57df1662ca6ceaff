#include "base/error.h"

#include "base/format.h"

namespace fourfold {

void fail_internal(std::string_view sentence, std::source_location where) {
  std::string_view file = where.file_name();
  if (const auto room = file.rfind("src/"); room != std::string_view::npos)
    file.remove_prefix(room);
  throw InternalError(format("{} ({}:{})", sentence, file, where.line()));
}

}  // namespace fourfold
