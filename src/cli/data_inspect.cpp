#include "base/styled_text.h"
#include "cli/commands.h"
#include "data/describe.h"
#include "screen/print.h"
#include "screen/rows.h"

namespace fourfold::cli {

void data_inspect(const InspectArguments& arguments) {
  const data::Description shown =
      data::describe(arguments.path, arguments.field, *data::bad_pictures_of(arguments.bad_images));
  screen::print("%s\n%s%s", shown.title.c_str(),
                without_styles(screen::to_text(shown.rows, 0)).c_str(), shown.text.c_str());
}

}  // namespace fourfold::cli
