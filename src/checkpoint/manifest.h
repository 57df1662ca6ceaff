// What a checkpoint says about itself: its step, its tensors, where each part of them lies, and the
// hashes of its files. A value with a text; the files themselves: save.h, load.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "checkpoint/box.h"

namespace fourfold::checkpoint {

inline constexpr std::int64_t manifest_format = 2;  // 1: other digests
/// Small enough that what was read of a file is still in a core's cache when it is hashed and
/// digested; as text the hashes are 1/65536 of the bytes.
inline constexpr std::int64_t chunk_bytes = std::int64_t{1} << 20;
inline constexpr std::string_view manifest_name = "manifest.json";

/// A part of a tensor: the tensor of the same name in file number `file`.
struct Slice {
  std::size_t file = 0;  // index into Manifest::files
  Box box;
  bool operator==(const Slice&) const = default;
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// Sum mod 2^64 of digest_term over all elements: free of layout and order.
  std::uint64_t digest = 0;
  std::vector<Slice> slices;  // each element of the tensor is in exactly one
  bool operator==(const StoredTensor&) const = default;
};

struct StoredFile {
  std::string name;  // "shard-00003.safetensors"
  std::int64_t size_bytes = 0;
  std::vector<std::uint64_t> chunk_hashes;  // of every chunk_bytes bytes, the last one shorter
  bool operator==(const StoredFile&) const = default;
};

/// The validation loss after so many steps.
struct Evaluated {
  std::int64_t step = 0;
  double loss = 0;
  bool operator==(const Evaluated&) const = default;
};

/// The figures of the last step, where a run ended before the evaluation or the text that follows
/// that step: whoever goes on evaluates first, and tells the step then.
struct Untold {
  double loss = 0, lr = 0, grad_norm = 0, time_s = 0;
  bool operator==(const Untold&) const = default;
};

struct Manifest {
  std::int64_t step = 0;  // steps done
  std::int64_t samples_seen = 0;
  std::uint64_t seed = 0;       // all random numbers are functions of it
  bool is_finite = true;        // loss and state at this step
  std::vector<Evaluated> best;  // evaluations of the run so far, the lowest loss first
  std::int64_t since_best = 0;  // evaluations after the best one
  std::optional<Untold> untold = {};
  std::string version;    // of the program that wrote it
  std::string config;     // resolved, as YAML
  std::string data;       // fingerprint of the training data
  std::string tokenizer;  // as text
  std::string grid;       // for people: any grid may load it
  std::vector<StoredTensor> tensors;
  std::vector<StoredFile> files;
  bool operator==(const Manifest&) const = default;

  /// Null when there is none of that name. Cost: linear.
  const StoredTensor* find(std::string_view name) const;
  std::int64_t size_bytes() const;
};

/// JSON that ends with the hash of all bytes before it.
std::string to_text(const Manifest& manifest);

/// Whoever holds a parsed manifest may rely on: file names are of the form above and unique; tensor
/// names are unique, printable and not too long; slices lie in their tensors, name files that are
/// there, do not overlap and cover each tensor. Errors: UserError(no_checkpoint) that begins with
/// `file` and says what is wrong.
Manifest parse_manifest(std::string_view text, std::string_view file);

/// "shard-00003.safetensors".
std::string shard_name(std::size_t rank);

}  // namespace fourfold::checkpoint
