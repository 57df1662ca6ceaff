// How token ids lie in files: whole numbers of one to eight bytes, little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/data_file.h"
#include "data/token_stream.h"

namespace fourfold::data {

enum class TokenDtype { u8, i8, i16, i32, i64, u16, u32 };

struct TokenDtypeFacts {
  const char* name;
  std::int64_t size_bytes;
};
TokenDtypeFacts facts_of(TokenDtype dtype);

/// The smallest that Megatron's own writer uses: u16 below 65,500 tokens, else i32.
TokenDtype dtype_for(std::int64_t vocab_size);

/// The ids that lie at `byte` of a file, of which the first stands at `position` of the stream.
/// Stops at the first that is not in [0, vocab_size). Allocates nothing.
std::optional<BadToken> read_tokens(const DataFile& file, std::int64_t byte, TokenDtype dtype,
                                    std::int64_t position, std::int64_t vocab_size,
                                    std::span<std::int32_t> into);

}  // namespace fourfold::data
