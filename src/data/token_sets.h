// Opens what the configuration names as data, and finds the tokenizer that its numbers belong to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/token_stream.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::data {

/// Streams that are sampled together, and what they have in common.
struct TokenSets {
  std::vector<std::unique_ptr<const TokenStream>> streams;
  std::unique_ptr<const TokenStream> validation;  // of data.validation; none: parts of the streams
  std::vector<double> weights = {1};              // relative, one a stream
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;
  std::string read_as;             // what texts were taken for; empty of all else
  std::vector<std::string> notes;  // what people should know of the files
};

/// The texts of data.path and data.validation, read whole and encoded. The alphabet of `char` is
/// that of both texts.
TokenSets make_texts(const DataSpec& spec);
/// The synthetic stream of spec.vocab_size tokens.
TokenSets make_synthetic(const DataSpec& spec);

/// Sets of tokens on the disk. The tokenizer is that of the sets' PREFIX.json and of
/// data.tokenizer, which must be the same where there are several; without any, tokens are numbers
/// below spec.vocab_size. Errors: UserError(bad_data), UserError(bad_config) where no tokenizer and
/// no vocabulary is known.
TokenSets open_megatron_sets(const DataSpec& spec);
TokenSets open_llmc_shards(const DataSpec& spec);

struct MissingFile {
  std::string key, path;  // "data.blend"
};
/// Files that the configuration names and that are not there: for a look at a configuration where
/// it is not to be run.
std::vector<MissingFile> missing_files(const DataSpec& spec);

}  // namespace fourfold::data
