#include "base/format.h"
#include "base/styled_text.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "data/bad_pictures.h"
#include "data/describe.h"
#include "data/verify_data.h"
#include "screen/print.h"
#include "screen/rows.h"

namespace fourfold::cli {
namespace {

struct InspectArguments {
  std::string path, field = "text", bad_images = "stop";
};

std::string fault_of_bad_images(const std::string& text) {
  return data::bad_pictures_of(text)
             ? std::string()
             : format("'{}' is neither stop nor skip:N, such as skip:10", text);
}

void list_options(OptionList& options, InspectArguments& given) {
  options.add("PATH", given.path, "A set, shards, texts, pictures, or a tokenizer's model",
              {.is_required = true});
  add_field_option(options, given.field);
  options.add("--bad-images", given.bad_images,
              "stop: the first bad picture is an error; skip:N: up to N are left out",
              {.shows_default = true, .fault = fault_of_bad_images});
}

void data_inspect(const InspectArguments& arguments) {
  const data::Description shown =
      data::describe(arguments.path, arguments.field, *data::bad_pictures_of(arguments.bad_images));
  screen::print("%s\n%s%s", shown.title.c_str(),
                without_styles(screen::to_text(shown.rows, 0)).c_str(), shown.text.c_str());
}

struct VerifyDataArguments {
  std::string path;
};

void list_options(OptionList& options, VerifyDataArguments& given) {
  options.add("PATH", given.path, "Tokens: the name of PATH.bin and PATH.idx; or pictures",
              {.is_required = true});
}

void data_verify(const VerifyDataArguments& arguments) {
  screen::print_text(data::verify_data(arguments.path));
}

}  // namespace

void add_data(Commands& commands) {
  commands.add_group({"data", After{"import"}, "Prepare texts for training, and look at data",
                      "data inspect data/bible.txt"});
  commands.add({"data inspect", After{"train-tokenizer"},
                "Print what a file or folder of data holds", "data inspect data/bible.txt"},
               list_options, data_inspect);
  commands.add({"data verify", After{"inspect"}, "Read every byte of a set and check it",
                "data verify data/bible"},
               list_options, data_verify);
}

}  // namespace fourfold::cli
