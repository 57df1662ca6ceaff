// Bytes as a safetensors file: a header whose text reads back, or UserError with code 4.
#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const auto file = std::as_bytes(std::span(bytes, size));
  const auto read = [&](std::int64_t offset, std::span<std::byte> into) {
    require(offset >= 0 && static_cast<std::size_t>(offset) + into.size() <= size,
            "a reader stays in its file");
    std::copy_n(file.begin() + offset, into.size(), into.begin());
  };
  try {
    const auto placed =
        checkpoint::read_safetensors_header(read, static_cast<std::int64_t>(size), "fuzz");
    const checkpoint::SafetensorsHeader& header = placed.header;
    std::vector<std::byte> data;
    for (const checkpoint::TensorInfo& tensor : header.tensors()) {
      require(tensor.begin >= 0 && tensor.end >= tensor.begin &&
                  static_cast<std::size_t>(placed.data_begin + tensor.end) <= size,
              "a tensor lies in its file");
      require(tensor.size_bytes() == tensor.shape.elements() * checkpoint::size_bytes(tensor.dtype),
              "a tensor has the bytes of its shape");
      data.resize(static_cast<std::size_t>(tensor.size_bytes()));
      read(placed.data_begin + tensor.begin, data);
    }
    const auto again =
        checkpoint::SafetensorsHeader::parse(header.text(), header.data_bytes(), "again");
    require(again.tensors() == header.tensors() && again.metadata() == header.metadata(),
            "a header reads back from its own text");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::no_checkpoint, "a damaged file ends with its own code");
  }
  return 0;
}
