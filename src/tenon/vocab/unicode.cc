#include "tenon/vocab/unicode.h"

#include <algorithm>
#include <memory>
#include <new>

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include "tenon/base/utf8.h"

namespace tenon::vocab {
namespace {

// ICU's data are compiled into it, so an instance is missing only if memory runs out.
const icu::Normalizer2& normalizer(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::nfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::nfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::nfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  if (found == nullptr) throw std::bad_alloc();
  return *found;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  // ASCII is the same in all four forms.
  if (is_ascii(text)) return std::string(text);
  std::string result;
  result.reserve(text.size());
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode status = U_ZERO_ERROR;
  normalizer(form).normalizeUTF8(0, {text.data(), static_cast<std::int32_t>(text.size())}, sink,
                                 nullptr, status);
  if (U_FAILURE(status)) throw std::bad_alloc();
  return result;
}

// Character by character, as Rust's char::to_lowercase does in the `tokenizers` package: a final
// sigma depends on the text around it, and is not treated as such there.
std::string lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    if (byte < 0x80) {
      result += static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
      text.remove_prefix(1);
      continue;
    }
    const utf8::Decoded character = utf8::decode(text);
    // The root locale: the result must not depend on the machine.
    icu::UnicodeString(static_cast<UChar32>(character.code_point))
        .toLower(icu::Locale::getRoot())
        .toUTF8String(result);
    text.remove_prefix(std::max<std::size_t>(1, character.length));
  }
  return result;
}

// The places behind each character as a reader sees it (UAX 29).
std::vector<std::size_t> grapheme_ends(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText* const source =
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status);
  std::vector<std::size_t> ends;
  if (U_SUCCESS(status)) breaks->setText(source, status);
  if (U_SUCCESS(status)) {
    while (breaks->next() != icu::BreakIterator::DONE) {
      ends.push_back(static_cast<std::size_t>(breaks->current()));
    }
  }
  utext_close(source);
  if (U_FAILURE(status)) throw std::bad_alloc();
  return ends;
}

bool is_space(char32_t character) {
  return u_hasBinaryProperty(static_cast<UChar32>(character), UCHAR_WHITE_SPACE) != 0;
}

// The same set as kWordPattern in tokenizer_json.cc.
bool is_word(char32_t character) {
  const auto c = static_cast<UChar32>(character);
  constexpr std::uint32_t kInWords = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || (U_GET_GC_MASK(c) & kInWords) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

}  // namespace tenon::vocab
