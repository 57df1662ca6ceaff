#include "tokenizer/hub_file.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "tokenizer/hub_steps.h"
#include "tokenizer/json_members.h"

namespace fourfold::tokenizer {
namespace {

/// The model, the added tokens and the template of a file.
class HubReading {
 public:
  HubReading(const Json& json, std::string_view source) : json_(json), source_(source) {}

  HubFile read() && {
    const Json* model = member(json_, "model");
    if (model == nullptr || model->kind() != Json::Kind::object) fail("model", "there is none");
    read_model(*model);
    read_vocabulary(*model);
    read_added();
    read_unknown(*model);
    read_merges(*model);
    read_normal_steps(member(json_, "normalizer"), file_.normal_steps);
    file_.is_of_bytes = read_cut_steps(member(json_, "pre_tokenizer"), file_.cut_steps);
    check_kind();
    read_template(member(json_, "post_processor"), "post_processor");
    check_decoder(member(json_, "decoder"));
    if (member(json_, "truncation") != nullptr)
      file_.notes.emplace_back("texts are cut to a length there (truncation), and stay whole here");
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(std::string_view part, std::string_view what) const {
    throw UserError(ExitCode::bad_data,
                    format("{}: {}: {}; expected a tokenizer.json as the tokenizers of Hugging "
                           "Face write it, whole",
                           source_, part, what));
  }

  void read_model(const Json& model) {
    const std::string type = text_of(model, "type");
    if (type != "BPE") throw Unlike{format("model: it is {}", type.empty() ? "of no type" : type)};
    if (const Json* dropout = member(model, "dropout");
        dropout != nullptr && !(*dropout == Json(0)) && !(*dropout == Json(0.0)))
      throw Unlike{"model.dropout: merges are left out at random"};
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(model, key).empty())
        throw Unlike{format("model.{}: words are not made so here", key)};
    file_.fuses_unknown = is_true(model, "fuse_unk", false);
    file_.falls_back_to_bytes = is_true(model, "byte_fallback", false);
    file_.takes_whole_words = is_true(model, "ignore_merges", false);
  }

  void read_vocabulary(const Json& model) {
    const Json* vocabulary = member(model, "vocab");
    if (vocabulary == nullptr || vocabulary->kind() != Json::Kind::object ||
        vocabulary->members().empty())
      fail("model.vocab", "is no object of tokens and their ids");
    for (const Json::Member& token : vocabulary->members()) {
      if (token.value.kind() != Json::Kind::integer)
        fail("model.vocab", format("the id of {} is no whole number", json_quoted(token.key)));
      put(token.value.as_integer(), token.key, "model.vocab");
    }
    file_.num_words = std::ssize(file_.tokens);
  }

  /// Gives an id its token. Ids that no token has yet are looked for when all parts are read.
  void put(std::int64_t id, const std::string& text, std::string_view part) {
    constexpr std::int64_t most_ids = std::int64_t{1} << 24;  // a hundred times what models have
    if (id < 0 || id >= most_ids)
      fail(part, format("{} has the id {}, expected 0 to {}", json_quoted(text), id, most_ids - 1));
    const auto place = static_cast<std::size_t>(id);
    if (place >= file_.tokens.size()) {
      file_.tokens.resize(place + 1);
      is_named_.resize(place + 1);
    }
    if (is_named_[place] && file_.tokens[place] != text)
      fail(part, format("{} and {} have the id {}", json_quoted(file_.tokens[place]),
                        json_quoted(text), id));
    const auto [known, is_new] = ids_.try_emplace(text, static_cast<std::int32_t>(id));
    if (!is_new && known->second != id)
      fail(part, format("{} has the ids {} and {}", json_quoted(text), known->second, id));
    file_.tokens[place] = text;
    is_named_[place] = true;
  }

  void read_added() {
    const Json* list = member(json_, "added_tokens");
    if (list != nullptr && list->kind() != Json::Kind::array) fail("added_tokens", "is no list");
    std::unordered_set<std::int64_t> seen;
    for (const Json& token : items_at(json_, "added_tokens")) {
      const Json* id = member(token, "id");
      HubFile::Added added;
      added.text = text_of(token, "content");
      if (id == nullptr || id->kind() != Json::Kind::integer || added.text.empty())
        fail("added_tokens", "a token has no id or content");
      put(id->as_integer(), added.text, "added_tokens");
      if (!seen.insert(id->as_integer()).second)
        fail("added_tokens", format("{} comes twice", json_quoted(added.text)));
      added.id = static_cast<std::int32_t>(id->as_integer());
      added.is_special = is_true(token, "special", false);
      added.takes_left = is_true(token, "lstrip", false);
      added.takes_right = is_true(token, "rstrip", false);
      added.is_normalised = is_true(token, "normalized", !added.is_special);
      if (is_true(token, "single_word", false))
        throw Unlike{format("added_tokens: {} is found as a whole word alone (single_word)",
                            json_quoted(added.text))};
      file_.added.push_back(std::move(added));
    }
    std::ranges::sort(file_.added, {}, &HubFile::Added::id);
    const auto hole = std::ranges::find(is_named_, false);
    if (hole != is_named_.end())
      throw Unlike{format("model.vocab: its ids have gaps: {} is no token, and {} is",
                          hole - is_named_.begin(), is_named_.size() - 1)};
  }

  std::optional<std::int32_t> id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  void read_unknown(const Json& model) {
    const std::string unknown = text_of(model, "unk_token");
    if (unknown.empty()) return;
    file_.unknown = id_of(unknown);
    if (!file_.unknown) fail("model.unk_token", format("{} is no token", json_quoted(unknown)));
  }

  /// As two texts, or as one with a space between them.
  std::pair<std::string, std::string> parts_of(const Json& merge) const {
    const auto is_text = [](const Json& json) { return json.kind() == Json::Kind::string; };
    if (is_text(merge)) {
      const std::string& text = merge.as_string();
      const std::size_t space = text.find(' ');
      if (space != text.npos && text.find(' ', space + 1) == text.npos)
        return {text.substr(0, space), text.substr(space + 1)};
    } else if (merge.kind() == Json::Kind::array && merge.items().size() == 2 &&
               is_text(merge.items()[0]) && is_text(merge.items()[1])) {
      return {merge.items()[0].as_string(), merge.items()[1].as_string()};
    }
    fail("model.merges", format("{} has no two parts", merge.dump().substr(0, 80)));
  }

  void read_merges(const Json& model) {
    const Json* merges = member(model, "merges");
    if (merges == nullptr || merges->kind() != Json::Kind::array)
      fail("model.merges", "is no list");
    std::unordered_set<std::uint64_t> pairs;
    for (const Json& merge : merges->items()) {
      const auto [left, right] = parts_of(merge);
      BytePairMerge made;
      for (const auto& [text, id] : {std::pair(left, &made.left), std::pair(right, &made.right),
                                     std::pair(left + right, &made.result)}) {
        const auto found = id_of(text);
        if (!found || *found >= file_.num_words)
          fail("model.merges", format("{} of the merge {} {} is no token of model.vocab",
                                      json_quoted(text), json_quoted(left), json_quoted(right)));
        *id = *found;
      }
      const auto key =
          static_cast<std::uint64_t>(made.left) << 32 | static_cast<std::uint32_t>(made.right);
      if (!pairs.insert(key).second)
        fail("model.merges",
             format("the merge {} {} comes twice", json_quoted(left), json_quoted(right)));
      file_.merges.push_back(made);
    }
  }

  /// What becomes of a character without a token.
  void check_kind() const {
    if (file_.is_of_bytes) return;
    const bool cuts = std::ranges::any_of(
        file_.cut_steps, [](const CutStep& step) { return step.what <= CutStep::What::literal; });
    if (file_.takes_whole_words && !cuts)
      throw Unlike{"model.ignore_merges: there are no words, as no pre-tokenizer cuts a text"};
    bool has_bytes = file_.falls_back_to_bytes;
    for (unsigned byte = 0; byte < 256 && has_bytes; ++byte)
      if (!id_of(byte_token_text(byte)))
        throw Unlike{format("model.byte_fallback: there is no token {}", byte_token_text(byte))};
    if (!has_bytes && !file_.unknown)
      throw Unlike{"model.unk_token: a character without a token is left out of a text there"};
  }

  void read_template(const Json* post, const std::string& part) {
    if (post == nullptr) return;
    const std::string type = type_of(post);
    if (type == "ByteLevel") return;
    if (type == "Sequence") {
      std::size_t number = 0;
      for (const Json& step : items_at(*post, "processors"))
        read_template(&step, format("{}.processors[{}]", part, number++));
      return;
    }
    if (type != "TemplateProcessing")
      throw Unlike{format("{}: {} is not known here", part, type.empty() ? "no type" : type)};
    if (!file_.before.empty() || !file_.after.empty())
      throw Unlike{format("{}: a second template", part)};
    bool has_text = false;
    for (const Json& piece : items_at(*post, "single")) {
      const Json* special = member(piece, "SpecialToken");
      if (special == nullptr) {
        if (has_text || member(piece, "Sequence") == nullptr)
          throw Unlike{format("{}: its text comes twice, or is none", part)};
        has_text = true;
        continue;
      }
      add_ids(*post, text_of(*special, "id"), part, has_text ? file_.after : file_.before);
    }
    if (!has_text) throw Unlike{format("{}: it has no text", part)};
  }

  void add_ids(const Json& post, const std::string& name, const std::string& part,
               std::vector<std::int32_t>& ids) const {
    const Json* all = member(post, "special_tokens");
    const Json* token = all != nullptr ? all->find(name) : nullptr;
    if (token == nullptr) fail(part, format("{} has no ids", json_quoted(name)));
    for (const Json& id : items_at(*token, "ids")) {
      const bool is_token = id.kind() == Json::Kind::integer && id.as_integer() >= 0 &&
                            id.as_integer() < std::ssize(file_.tokens);
      if (!is_token) fail(part, format("{} of {} is no token", id.dump(), json_quoted(name)));
      ids.push_back(static_cast<std::int32_t>(id.as_integer()));
    }
  }

  /// Ids become texts by what the tokens are; the file's own way must be the same.
  void check_decoder(const Json* decoder) {
    if (decoder == nullptr) return;
    std::vector<Json> steps = {*decoder};
    if (type_of(decoder) == "Sequence") steps = items_at(*decoder, "decoders");
    for (const Json& step : steps) {
      const std::string type = type_of(&step);
      const bool is_ours = file_.is_of_bytes
                               ? type == "ByteLevel" || type == "Fuse"
                               : type == "Replace" || type == "ByteFallback" || type == "Fuse" ||
                                     type == "Strip" || type == "Metaspace";
      if (!is_ours)
        file_.notes.push_back(
            format("ids become text by its tokens alone; decoder: {} is not known here", type));
    }
  }

  const Json& json_;
  std::string_view source_;
  HubFile file_;
  std::vector<bool> is_named_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

std::string byte_token_text(unsigned byte) {
  return format("<0x{:02X}>", byte);
}

std::variant<HubFile, std::string> read_hub_file(const Json& json, std::string_view source) {
  try {
    return HubReading(json, source).read();
  } catch (const Unlike& unlike) {
    return unlike.reason;
  }
}

}  // namespace fourfold::tokenizer
