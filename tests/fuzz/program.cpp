// Bytes as changes to the text of a program that has every row of the op table: the reader gives a
// program that reads back from its own text, or UserError with code 2; the verifier names faults.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "fuzz/target.h"
#include "program/all_rows.h"
#include "program/text.h"
#include "verify/verify.h"

namespace fourfold::program {
namespace {

/// What texts are made of: digits and words that matter in one place, put into another.
constexpr std::string_view pieces[] = {"0",
                                       "-1",
                                       "9223372036854775807",
                                       "[]",
                                       "[0]",
                                       "[2, 3]",
                                       "true",
                                       "",
                                       " ",
                                       ",",
                                       "\n",
                                       "&",
                                       "->",
                                       "accumulate true",
                                       "tensors 3",
                                       "global [5, 9] at [2, 4]",
                                       "1e308",
                                       "nan",
                                       "rate 0.5",
                                       "4611686018427387904",
                                       "bf16",
                                       "i64",
                                       " chunk 1",
                                       " chunks 2"};

/// Each change is three bytes of a place, one of a length that goes, one of what comes.
std::string changed(std::string text, const std::uint8_t* bytes, std::size_t size) {
  for (; size >= 5; bytes += 5, size -= 5) {
    const std::size_t place =
        (bytes[0] + 256 * (bytes[1] + std::size_t{256} * bytes[2])) % (text.size() + 1);
    const std::size_t length = std::min<std::size_t>(bytes[3] % 12, text.size() - place);
    text.replace(place, length, pieces[bytes[4] % std::size(pieces)]);
  }
  return text;
}

}  // namespace
}  // namespace fourfold::program

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  static const std::string text = program::to_text(program::all_rows());
  program::Program read;
  try {
    read = program::parse_program(program::changed(text, bytes, size), "fuzz.txt");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_config, "a bad program ends with its own code");
    return 0;
  }
  verify::verify(read);
  return 0;
}
