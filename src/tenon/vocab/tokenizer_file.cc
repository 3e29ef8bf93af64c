#include "tenon/vocab/tokenizer_file.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/base/utf8.h"
#include "tenon/vocab/spelling.h"

// Finds out what kind of file it is, reads it, and tries the tokenizer on texts before it is used:
// each must come back as it was, and none may become a control token (check_tokenizer).
namespace tenon::vocab {
namespace {

constexpr std::size_t kMostFile = std::size_t{256} << 20U;
constexpr std::size_t kMostConfig = std::size_t{16} << 20U;

/// Texts that faulty tokenizers are known to lose: spaces in different places, line ends, marks,
/// long runs, characters of every length, and texts that look like the notation of vocabulary
/// files. All are in NFC, which many models require.
constexpr std::string_view kTexts[] = {
    "a",
    " a",
    "a ",
    "  two  spaces  ",
    "                                                                 long run",
    "\n",
    "\r\n",
    "\n\n\t\t\n x\n",
    "tab\tand\vrare\f spaces\u00a0and\u3000wide ones",
    "Don't you'LL they're I'd",
    "0123456789 1,234.5e-6 3.14159",
    R"({"name": "get_weather", "arguments": {"city": "Zürich", "n": [1, -2.5]}})",
    "def f(x):\n    return x  # done\n",
    "<0x41> <0x0A> ĠĊ <unk> <s></s> [INST]",
    "q\u0323\u0303 marks",
    "שלום مرحبا",
    "你好，世界。",
    "한국어 ภาษา",
    "👩\u200d👩\u200d👧 🇨🇭",
    "\x01\x02\x1B\x7F",
    "\ufffd\ue000\U0010fffd",
};

std::string decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.bytes(id);
  return text;
}

// In quotes, and cut to 60 bytes, between characters.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return "'" + std::string(text) + "'";
  return "'" + utf8::sanitized(text.substr(0, utf8::valid_prefix(text.substr(0, kMost)))) + "...'";
}

Unexpected refused(std::string message) {
  return Unexpected(Error{Errc::unsupported, "the tokenizer " + std::move(message)});
}

// Whether a text comes back as it was, without control tokens. Before a text at the start, a
// tokenizer may put a space.
Status check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool at_start : {false, true}) {
    std::vector<TokenId> ids;
    if (Status done = tokenizer.encode(text, Controls::off, at_start, ids); !done) {
      return refused("cannot take " + shown(text) + ": " + done.error().message);
    }
    for (const TokenId id : ids) {
      if (!tokenizer.is_control(id)) continue;
      return refused("makes the control token " + shown(tokenizer.bytes(id)) + " of " +
                     shown(text));
    }
    const std::string back = decoded(tokenizer, ids);
    if (back == text || (at_start && back == " " + std::string(text))) continue;
    return refused("does not keep texts: " + shown(text) + " comes back as " + shown(back));
  }
  return {};
}

/// Characters that together have each byte that UTF-8 uses, as a first byte and as a later one.
std::vector<std::string> characters_of_all_bytes() {
  std::vector<std::string> texts;
  const auto add = [&](char32_t first, char32_t last, char32_t step) {
    std::string text;
    for (char32_t c = first; c <= last; c += step) utf8::append(text, c);
    texts.push_back(std::move(text));
  };
  add(0x01, 0x7F, 1);
  add(0xC0, 0x2FF, 1);      // C3 to CB, every second byte; marks for CC are above
  add(0x370, 0x373, 1);     // CD
  add(0x391, 0x5EA, 0x40);  // CE to D7
  add(0x620, 0x7FF, 0x40);  // D8 to DF
  add(0xE01, 0xE30, 1);     // E0
  add(0x1010, 0x1FFF, 0x400);
  add(0x2200, 0x2203, 1);
  add(0x3042, 0x9FA5, 0x1000);
  add(0xAC00, 0xD7A3, 0x400);
  add(0xE000, 0xE000, 1);
  add(0xFFFD, 0xFFFD, 1);
  add(0x1F600, 0x1F63F, 1);
  for (char32_t c = 0x50000; c <= 0x10FFFD; c += 0x3FFFF) add(c, c, 1);
  return texts;
}

// `text` without the control characters for which the vocabulary has no token.
std::string as_far_as_known(const Tokenizer& tokenizer, std::string_view text) {
  std::string known;
  for (const char character : text) {
    std::vector<TokenId> ids;
    const std::string one(1, character);
    const bool is_known =
        !is_rare_control(static_cast<unsigned char>(character)) ||
        (tokenizer.encode(one, Controls::off, false, ids) && decoded(tokenizer, ids) == one);
    if (is_known) known += character;
  }
  return known;
}

Error with_path(const Error& error, const std::filesystem::path& path) {
  return Error{error.code, path.string() + ": " + error.message};
}

// By its content, since files in caches of models have hashes for names.
bool is_gguf(const std::filesystem::path& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

Expected<std::shared_ptr<const Tokenizer>> read(const std::filesystem::path& path) {
  if (is_gguf(path)) {
    Expected<GgufFile> file = GgufFile::open(path.string());
    if (!file) return Unexpected(with_path(file.error(), path));
    auto tokenizer = read_gguf_tokenizer(*file);
    if (!tokenizer) return Unexpected(with_path(tokenizer.error(), path));
    return tokenizer;
  }
  const Expected<std::string> text = read_file(path, kMostFile);
  if (!text) return Unexpected(text.error());
  if (const std::size_t at = text->find_first_not_of(" \t\r\n");
      at == std::string::npos || (*text)[at] != '{') {
    return Unexpected(with_path(
        {Errc::invalid, "is neither a GGUF file nor a tokenizer.json, which is a JSON object"},
        path));
  }
  std::string config;
  // Says which tokens begin and end a text. A folder without it is fine.
  const std::filesystem::path beside = path.parent_path() / "tokenizer_config.json";
  if (std::error_code missing; std::filesystem::exists(beside, missing)) {
    Expected<std::string> read = read_file(beside, kMostConfig);
    if (!read) return Unexpected(read.error());
    config = std::move(*read);
  }
  auto tokenizer = parse_tokenizer_json(*text, config);
  if (!tokenizer) return Unexpected(with_path(tokenizer.error(), path));
  return tokenizer;
}

}  // namespace

// A reader that has misunderstood a file loses or changes text, or lets a user write a control
// token. Both would go unnoticed in answers, so every tokenizer is tried on such texts when it is
// loaded.
Status check_tokenizer(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = characters_of_all_bytes();
  texts.insert(texts.begin(), std::begin(kTexts), std::end(kTexts));
  for (const std::string& text : texts) {
    if (Status done = check_text(tokenizer, as_far_as_known(tokenizer, text)); !done) return done;
  }
  constexpr std::size_t kMostControls = 2048;  // some vocabularies reserve thousands
  std::size_t controls = 0;
  // The text of a control token, as a user may write it, must come out as ordinary tokens.
  for (std::size_t i = 0; i < tokenizer.size() && controls < kMostControls; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = tokenizer.bytes(id);
    if (!tokenizer.is_control(id) || text.empty()) continue;
    ++controls;
    if (Status done = check_text(tokenizer, text); !done) return done;
  }
  return {};
}

Expected<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::filesystem::path& path) {
  auto tokenizer = read(path);
  if (!tokenizer) return tokenizer;
  if (Status kept = check_tokenizer(**tokenizer); !kept) {
    return Unexpected(with_path(kept.error(), path));
  }
  return tokenizer;
}

}  // namespace tenon::vocab
