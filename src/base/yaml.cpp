#include "base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "base/format.h"

namespace fourfold {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20;
constexpr std::size_t max_yaml_depth = 32;
constexpr std::size_t max_nodes = 10'000;

/// Ends the parse: a limit was passed, and its problem is noted.
struct Stop {};

/// Builds the tree from the library's events, in the order of the text, so that limits stop a
/// hostile file early.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(YamlDocument& document, std::vector<Diagnostic>& problems)
      : document_(document), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    note(placed(YamlNode::Kind::null, mark), "a second document begins here",
         "give two files instead: they merge from left to right");
    throw Stop();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = placed(YamlNode::Kind::null, mark);
    refuse_decoration(node, "", anchor);
    // The library places an absent value at the next token, often on a later line: its key is where
    // people look.
    if (waits_for_value()) {
      node.line = open_.back().key->line;
      node.column = open_.back().key->column;
    }
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    YamlNode node = placed(YamlNode::Kind::null, mark);
    note(node, "aliases (*name) are not allowed", "write the value out");
    if (waits_for_value()) open_.back().keep = false;
    add(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = placed(YamlNode::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag == "!";
    refuse_decoration(node, tag, anchor);
    const std::size_t end = end_of_scalar(static_cast<std::size_t>(mark.pos), node);
    const bool is_key =
        !open_.empty() && open_.back().node.kind == YamlNode::Kind::map && !waits_for_value();
    const bool is_sound = end != 0;
    if (!is_sound && node.quoted)
      note(node, "a quoted text is not closed on its line",
           "add the closing quote; a line break is \\n in double quotes");
    else if (!is_sound)
      note(node, "a value goes on in the next line", "end it with its line, or put it in quotes");
    add(std::move(node));
    if (is_key && is_sound) require_colon(end);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(placed(YamlNode::Kind::list, mark), tag, anchor, style);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(placed(YamlNode::Kind::map, mark), tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  /// After the last document.
  void finish() {
    problems_.insert(problems_.end(), missing_colons_.begin(), missing_colons_.end());
  }

  /// Where the innermost bracket that is still open stands.
  std::optional<YamlNode> open_bracket() const {
    for (auto level = open_.rbegin(); level != open_.rend(); ++level)
      if (level->is_flow) return level->node;
    return std::nullopt;
  }

 private:
  struct Level {
    YamlNode node;
    bool is_flow = false;
    std::optional<YamlNode> key;  // of a map, while its value is awaited
    bool keep = true;             // false: the value of a refused key
  };

  static YamlNode placed(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.line = static_cast<std::size_t>(mark.line + 1);
    node.column = static_cast<std::size_t>(mark.column + 1);
    return node;
  }
  void note(const YamlNode& node, std::string message, std::string hint) {
    problems_.push_back(document_.problem_at(node, std::move(message), std::move(hint)));
  }
  void refuse_decoration(const YamlNode& node, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0)
      note(node, "anchors (&name) are not allowed", "write the value out where it is needed");
    if (!tag.empty() && tag != "?" && tag != "!")
      note(node, "tags (!name) are not allowed", "leave the tag out");
  }
  /// The byte after the scalar that begins at `begin`; 0 when it goes on in the next line (the
  /// library then reads what was meant as keys into the text, even up to the end of the file).
  /// Block scalars (| and >) may.
  std::size_t end_of_scalar(std::size_t begin, const YamlNode& node) {
    const std::string_view line = rest_of_line(begin);
    if (line.empty() || line[0] == '|' || line[0] == '>' || line[0] == '!' || line[0] == '&')
      return text_size();
    if (!node.quoted) return line.starts_with(node.text) ? begin + node.text.size() : 0;
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[0] == '"' && line[i] == '\\') {
        ++i;
      } else if (line[i] == line[0]) {
        const bool is_doubled = line[0] == '\'' && i + 1 < line.size() && line[i + 1] == '\'';
        if (!is_doubled) return begin + i + 1;
        ++i;
      }
    }
    return 0;
  }
  /// The library takes a last word without ':' for a key without a value.
  void require_colon(std::size_t end) {
    const std::string_view rest = rest_of_line(end);
    const auto next = rest.find_first_not_of(" \t");
    if (next != rest.npos && rest[next] == ':') return;
    Level& level = open_.back();
    missing_colons_.push_back(
        document_.problem_at(*level.key, format("'{}' has no ':'", level.key->text),
                             "write 'key: value', with a space after the ':'"));
    level.keep = false;
  }
  std::string_view rest_of_line(std::size_t begin) {
    const std::string_view text = document_.text;
    if (begin >= text.size()) return {};
    // A line is looked through once, however many values it holds.
    if (begin < line_begin_ || begin > line_end_) {
      line_begin_ = begin;
      line_end_ = std::min(text.find_first_of("\r\n", begin), text.size());
    }
    return text.substr(begin, line_end_ - begin);
  }
  std::size_t text_size() const { return document_.text.size(); }
  bool waits_for_value() const { return !open_.empty() && open_.back().key.has_value(); }

  void open(YamlNode node, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    refuse_decoration(node, tag == "!" ? "" : tag, anchor);
    if (open_.size() == max_yaml_depth) {
      note(node, format("nested deeper than {} levels", max_yaml_depth),
           "close a bracket, or flatten the value");
      throw Stop();
    }
    open_.push_back({std::move(node), style == YAML::EmitterStyle::Flow, std::nullopt, true});
  }
  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }
  void add(YamlNode node) {
    if (++nodes_ > max_nodes) {
      note(node, format("more than {} values and keys", max_nodes), "this is no configuration");
      throw Stop();
    }
    if (open_.empty()) {
      document_.root = std::move(node);
    } else if (open_.back().node.kind == YamlNode::Kind::list) {
      open_.back().node.items.push_back(std::move(node));
    } else if (!waits_for_value()) {
      add_key(std::move(node));
    } else {
      Level& level = open_.back();
      if (level.keep) level.node.members.push_back({std::move(*level.key), std::move(node)});
      level.key.reset();
    }
  }
  void add_key(YamlNode key);

  YamlDocument& document_;
  std::vector<Diagnostic>& problems_;
  std::vector<Level> open_;
  std::vector<Diagnostic>
      missing_colons_;  // reported only if nothing worse, such as an open bracket, explains them
  std::size_t nodes_ = 0;
  std::size_t line_begin_ = 1, line_end_ = 0;  // of the part of a line that was looked through last
  std::size_t documents_ = 0;
};

void TreeBuilder::add_key(YamlNode key) {
  Level& level = open_.back();
  level.keep = false;
  const auto same =
      std::find_if(level.node.members.begin(), level.node.members.end(),
                   [&](const YamlMember& member) { return member.key.text == key.text; });
  if (key.kind != YamlNode::Kind::scalar)
    note(key, format("a key is a word, not {}", key.described()), "write 'key: value'");
  else if (key.text == "<<" && !key.quoted)
    note(key, "merge keys (<<) are not allowed",
         "give several files instead: they merge from left to right");
  else if (same != level.node.members.end())
    note(key, format("duplicate key '{}'", key.text),
         format("it stands at line {} already", same->key.line));
  else
    level.keep = true;
  level.key = std::move(key);
}

struct Phrase {
  std::string_view library, ours, hint;
};

/// The library's messages that users meet, in words that say what to look for.
constexpr std::array<Phrase, 10> phrases = {{
    {"end of sequence flow not found", "'[' is never closed", "add ']', and ',' between the items"},
    {"end of map flow not found", "'{' is never closed", "add '}', and ',' between the members"},
    {"illegal flow end", "a closing bracket that no opening one matches",
     "remove it, or close another kind of bracket before it"},
    {"illegal map value", "':' is not allowed here",
     "check the indentation; put text that contains ': ' in quotes"},
    {"illegal map key", "a key is not allowed here", "check the indentation"},
    {"end of map not found", "expected 'key: value'",
     "check the indentation, and the ':' with a space after it"},
    {"end of sequence not found", "expected '- item'", "check the indentation"},
    {"illegal block entry", "'- item' is not allowed here", "check the indentation"},
    {"illegal EOF in scalar", "a quoted text is never closed", "add the closing quote"},
    {"the referenced anchor is not defined", "aliases (*name) are not allowed",
     "write the value out; put text that begins with '*' in quotes"},
}};

/// After a line such as "steps:5" the library stumbles over the ':' of the next one.
std::optional<YamlNode> line_without_colon(const YamlDocument& document, const YamlNode& place,
                                           std::string_view message) {
  if (!message.starts_with("illegal map value") || place.line < 2) return std::nullopt;
  const std::string_view before = line_of(document.text, place.line).substr(0, place.column - 1);
  const std::string_view above = line_of(document.text, place.line - 1);
  const auto word = above.find_first_not_of(' ');
  const bool other_colon = before.find(": ") != before.npos;
  const bool is_whole = above.find(": ") != above.npos || above.ends_with(':');
  if (other_colon || is_whole || word == above.npos || above[word] == '#' || above[word] == '-')
    return std::nullopt;
  YamlNode line;
  line.line = place.line - 1;
  line.column = word + 1;
  line.text = above.substr(word);
  return line;
}

/// "[1, 2}": a bracket that closes another kind.
Diagnostic other_bracket(const YamlDocument& document, const YamlNode& place,
                         const YamlNode& open) {
  const bool is_list = open.kind == YamlNode::Kind::list;
  return document.problem_at(place,
                             format("this bracket does not close the '{}' of line {}, column {}",
                                    is_list ? '[' : '{', open.line, open.column),
                             format("write '{}' before it", is_list ? ']' : '}'));
}

void note_syntax_error(const YamlDocument& document, const TreeBuilder& builder,
                       const YAML::ParserException& error, std::vector<Diagnostic>& problems) {
  YamlNode place;
  place.line = static_cast<std::size_t>(std::max(0, error.mark.line) + 1);
  place.column = static_cast<std::size_t>(std::max(0, error.mark.column) + 1);
  const std::string_view text = error.msg;
  const auto* phrase = std::find_if(phrases.begin(), phrases.end(),
                                    [&](const Phrase& p) { return text.starts_with(p.library); });
  // A bracket that is not closed shows only at the next token, lines below.
  const bool unclosed = text.find("flow not found") != text.npos;
  if (const auto bracket = builder.open_bracket(); bracket && (unclosed || phrase == phrases.end()))
    place = *bracket;
  if (const auto bracket = builder.open_bracket(); bracket && text.starts_with("illegal flow end"))
    problems.push_back(other_bracket(document, place, *bracket));
  else if (const auto line = line_without_colon(document, place, text))
    problems.push_back(document.problem_at(*line, "this line has no ':' with a space after it",
                                           "write 'key: value'"));
  else if (phrase == phrases.end())
    problems.push_back(
        document.problem_at(place, format("not valid YAML: {}", text), "check the line above too"));
  else
    problems.push_back(
        document.problem_at(place, std::string(phrase->ours), std::string(phrase->hint)));
}

/// The byte at which `text` stops being UTF-8 (RFC 3629), or has a control character that no text
/// file has.
std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool is_control = lead < 0x20 && lead != '\n' && lead != '\r' && lead != '\t';
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    if (is_control || lead == 0x7f || length == 0 || i + length > text.size()) return i;
    for (std::size_t j = 1; j < length; ++j)
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0U) != 0x80U) return i;
    i += length;
  }
  return std::nullopt;
}

YamlNode place_of_byte(std::string_view text, std::size_t byte) {
  const auto before = text.substr(0, byte);
  YamlNode place;
  place.line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const auto newline = before.rfind('\n');
  place.column = newline == before.npos ? byte + 1 : byte - newline;
  return place;
}

/// The first tab in the white space that begins a line with something on it.
std::optional<std::size_t> first_indenting_tab(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    const auto word = line.find_first_not_of(" \t\r");
    const auto tab = line.find('\t');
    if (word != line.npos && line[word] != '#' && tab < word) return begin + tab;
    begin = end + 1;
  }
  return std::nullopt;
}

/// Problems that are looked for in the bytes, before the library sees them.
std::optional<Diagnostic> byte_problem(const YamlDocument& document) {
  if (document.text.size() > max_bytes) {
    Diagnostic problem{document.name,
                       0,
                       0,
                       1,
                       format("{} bytes are too many", document.text.size()),
                       "a configuration has at most 1 MiB",
                       ""};
    return problem;
  }
  if (const auto byte = first_bad_byte(document.text))
    return document.problem_at(place_of_byte(document.text, *byte),
                               format("the byte 0x{:02x} does not belong in a text file (UTF-8)",
                                      static_cast<unsigned char>(document.text[*byte])),
                               "save the file as UTF-8 text");
  if (const auto tab = first_indenting_tab(document.text))
    return document.problem_at(place_of_byte(document.text, *tab),
                               "tabs are not allowed for indentation", "use spaces");
  return std::nullopt;
}

void parse_into(YamlDocument& document, const std::string& input,
                std::vector<Diagnostic>& problems) {
  if (auto problem = byte_problem(document)) {
    problems.push_back(std::move(*problem));
    return;
  }
  TreeBuilder builder(document, problems);
  try {
    std::istringstream stream(input);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    builder.finish();
  } catch (const Stop&) {
    document.root = YamlNode();
  } catch (const YAML::ParserException& error) {
    note_syntax_error(document, builder, error, problems);
    document.root = YamlNode();
  }
}

}  // namespace

std::string YamlNode::described() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
    case Kind::scalar:
      break;
  }
  constexpr std::size_t most = 60;
  return format("'{}'", text.size() <= most ? text : text.substr(0, most) + "...");
}

Diagnostic YamlDocument::problem_at(const YamlNode& node, std::string message,
                                    std::string hint) const {
  Diagnostic problem;
  problem.file = name;
  problem.line = has_lines ? node.line : 0;
  problem.column = node.column;
  problem.source_line = line_of(text, node.line);
  const std::size_t left =
      problem.source_line.size() - std::min(problem.source_line.size(), node.column - 1);
  const std::size_t length = node.text.size() + (node.quoted ? 2 : 0);
  problem.width = std::max<std::size_t>(1, std::min(left, length));
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  return problem;
}

YamlDocument parse_yaml(std::string text, std::string name, std::vector<Diagnostic>& problems) {
  YamlDocument document;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  document.name = std::move(name);
  document.text = std::move(text);
  parse_into(document, document.text, problems);
  return document;
}

YamlDocument parse_yaml_value(std::string line, std::size_t value_begin, std::string name,
                              std::vector<Diagnostic>& problems) {
  YamlDocument document;
  document.name = std::move(name);
  document.text = std::move(line);
  document.has_lines = false;
  // Spaces in place of the key keep the columns right and mean nothing before a value.
  std::string input(value_begin, ' ');
  input += std::string_view(document.text).substr(value_begin);
  parse_into(document, input, problems);
  return document;
}

std::string yaml_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char byte : text) {
    if (byte == '\n')
      result += "\\n";
    else if (byte == '\t')
      result += "\\t";
    else if (byte == '"' || byte == '\\')
      result += {'\\', byte};
    else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f)
      result += format("\\x{:02x}", static_cast<unsigned char>(byte));
    else
      result += byte;
  }
  return result + '"';
}

}  // namespace fourfold
