#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

#include "tenon/vocab/spelling.h"
#include "tenon/vocab/text_tokenizer.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/turn_ends.h"

// A line of the file is a token in base64 and its rank, which is also its id: "IQ== 0". There are
// no merges in it: two tokens merge if their texts make up a third, in the order of ranks. The
// special tokens and the pattern are not in the file either; the caller gives them.
// Source: https://github.com/openai/tiktoken/blob/main/tiktoken/load.py
namespace tenon::vocab {
namespace {

constexpr std::size_t kMostTiktokenFile = std::size_t{1} << 28U;

struct Line {
  std::string bytes;
  std::int64_t rank;
};

// Nothing if the line is not of this form.
std::optional<Line> read_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  std::int64_t rank = -1;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = end.ec == std::errc() && end.ptr == digits.data() + digits.size();
  if (!bytes || bytes->empty() || !is_number || rank < 0) return std::nullopt;
  return Line{std::move(*bytes), rank};
}

class TiktokenReader {
 public:
  explicit TiktokenReader(const TiktokenOptions& options) : options_(options) {}

  Expected<std::shared_ptr<const Tokenizer>> read(std::string_view text) {
    if (text.size() > kMostTiktokenFile) {
      return Unexpected(Error{Errc::limit_exceeded, "the file has more than 256 MiB"});
    }
    // Ranks may have gaps, but not wide ones, so that a short file cannot make us allocate much.
    const auto lines = std::count(text.begin(), text.end(), '\n');
    most_ids_ = std::min<std::int64_t>(
        4 * (lines + static_cast<std::int64_t>(options_.special.size())) + 4096, kMostTokens);
    if (Status done = read_lines(text); !done) return Unexpected(done.error());
    if (Status done = add_special(); !done) return Unexpected(done.error());
    return make();
  }

 private:
  Status put(std::string bytes, std::int64_t id, const std::string& place) {
    if (id < 0 || id >= most_ids_) {
      return Unexpected(Error{Errc::limit_exceeded, place + " has the id " + std::to_string(id) +
                                                        ", too many for so few tokens"});
    }
    const auto index = static_cast<std::size_t>(id);
    if (index >= parts_.bytes.size()) parts_.bytes.resize(index + 1);
    if (!parts_.bytes[index].empty()) {
      return Unexpected(
          Error{Errc::invalid, place + " gives the id " + std::to_string(id) + " again"});
    }
    parts_.bytes[index] = std::move(bytes);
    return {};
  }

  Status read_lines(std::string_view text) {
    for (std::size_t number = 1; !text.empty(); ++number) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      // Files that were copied through Windows.
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      std::optional<Line> read = read_line(line);
      const std::string place = "line " + std::to_string(number);
      if (!read) {
        return Unexpected(Error{Errc::invalid, place + " is no token in base64 and its rank"});
      }
      if (Status done = put(std::move(read->bytes), read->rank, place); !done) return done;
    }
    return {};
  }

  Status add_special() {
    for (const TiktokenOptions::Special& special : options_.special) {
      const std::string place = "the special token '" + special.text + "'";
      if (special.text.empty() || special.text.size() > AddedToken::kLongest) {
        return Unexpected(Error{Errc::invalid, place + " is empty or too long"});
      }
      if (Status done = put(special.text, special.id, place); !done) return done;
      parts_.added.push_back({.id = special.id, .text = special.text, .is_control = true});
    }
    return {};
  }

  std::optional<TokenId> special(std::string_view text) const {
    for (const AddedToken& token : parts_.added) {
      if (token.text == text) return token.id;
    }
    return std::nullopt;
  }

  Expected<std::shared_ptr<const Tokenizer>> make() {
    const std::size_t size = parts_.bytes.size();
    std::vector<std::string_view> special_texts(size);
    parts_.is_control.resize(size);
    for (const AddedToken& token : parts_.added) {
      special_texts[static_cast<std::size_t>(token.id)] = token.text;
      parts_.is_control[static_cast<std::size_t>(token.id)] = true;
    }
    parts_.ends = turn_ends(special_texts);
    parts_.bos = special(options_.bos);
    parts_.eos = special(options_.eos);
    parts_.adds_bos = options_.adds_bos;
    if (parts_.eos) parts_.ends.push_back(*parts_.eos);
    if (!options_.bos.empty() && !parts_.bos) return no_special(options_.bos);
    if (!options_.eos.empty() && !parts_.eos) return no_special(options_.eos);

    auto pattern = regex::Splitter::compile(options_.pattern, regex::Dialect::fancy_regex);
    if (!pattern) return Unexpected(pattern.error());
    // Text that the pattern does not match is a piece too; tiktoken itself would lose it.
    std::vector<PreTokenizer::Step> steps(1);
    steps[0].pattern = std::move(*pattern);
    parts_.pre_tokenizer = PreTokenizer(std::move(steps));

    std::vector<bool> findable(size);
    for (std::size_t i = 0; i < size; ++i) {
      findable[i] = !parts_.is_control[i] && !parts_.bytes[i].empty();
    }
    StringTable texts(std::vector<std::string_view>(parts_.bytes.begin(), parts_.bytes.end()),
                      findable);
    const auto merges = merges_by_text(texts, /*whole_characters=*/false,
                                       [](TokenId id) { return static_cast<std::uint32_t>(id); });
    if (!merges) return Unexpected(merges.error());
    // prefers_whole: tiktoken looks a piece up as a whole before it merges.
    parts_.model = std::make_unique<const BpeModel>(
        std::move(texts), *merges,
        BpeModel::Options{.of_bytes = true, .prefers_whole = true, .fallback = {}});
    return std::make_shared<const TextTokenizer>(std::move(parts_));
  }

  static Unexpected no_special(const std::string& text) {
    return Unexpected(Error{Errc::invalid, "'" + text + "' is not one of the special tokens"});
  }

  const TiktokenOptions& options_;
  TextTokenizer::Parts parts_;
  std::int64_t most_ids_ = 0;
};

}  // namespace

Expected<std::shared_ptr<const Tokenizer>> parse_tiktoken(std::string_view text,
                                                          const TiktokenOptions& options) {
  return TiktokenReader(options).read(text);
}

}  // namespace tenon::vocab
