// The index of a Megatron set, and opening the set that it describes: any bytes give a set that can
// be read or an error about data.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/megatron_set.h"
#include "fuzz/target.h"

namespace fourfold::data {
namespace {

/// A folder that goes away with the process.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "fourfold-fuzz-XXXXXX").string();
    require(::mkdtemp(path_.data()) != nullptr, "there is room for the files");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string prefix() const { return path_ + "/set"; }

 private:
  std::string path_;
};

void write(const std::string& path, std::span<const std::uint8_t> bytes) {
  // A new file: some file systems flush one that is written over.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

void read_all(const MegatronSet& set) {
  std::vector<std::int32_t> ids(64);
  std::vector<std::int64_t> begins(64);
  for (std::int64_t at = 0; at < set.num_tokens(); at += 64) {
    const auto size = static_cast<std::size_t>(std::min<std::int64_t>(64, set.num_tokens() - at));
    if (set.read(at, std::numeric_limits<std::int32_t>::max(), std::span(ids).first(size)))
      fail_internal("zeros are tokens of every type");
    set.document_begins(at, std::span(begins).first(size));
    for (std::size_t i = 0; i < size; ++i)
      require(begins[i] >= 0 && begins[i] <= at + static_cast<std::int64_t>(i),
              "a document begins at or before its tokens");
  }
}

}  // namespace
}  // namespace fourfold::data

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  static const data::Folder folder;
  const std::span<const std::uint8_t> input(bytes, size);
  // The first two bytes say how large the .bin is.
  if (size < 2) return 0;
  data::write(folder.prefix() + ".bin", {});
  std::filesystem::resize_file(folder.prefix() + ".bin", bytes[0] + std::size_t{256} * bytes[1]);
  data::write(folder.prefix() + ".idx", input.subspan(2));
  try {
    data::read_all(data::MegatronSet(folder.prefix()));
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_data, "a bad set ends with the code of data");
  }
  return 0;
}
