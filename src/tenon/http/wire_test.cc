#include "tenon/http/wire.h"

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::http {
namespace {

using namespace std::string_view_literals;

// Small enough that a row of a table can exceed them.
constexpr WireLimits kLimits{.max_header_bytes = 120, .max_body_bytes = 32, .max_fields = 4};

// What a reader read from a stream: "METHOD path query|body" for each request, flags, and how it
// ended.
std::string taken(RequestReader& reader) {
  std::string flags;
  if (!reader.is_http_1_1()) flags += " 1.0";
  if (!reader.keeps_alive()) flags += " close";
  const Request request = reader.take();
  std::string text = request.method + " " + request.path;
  if (!request.query.empty()) text += " ?" + request.query;
  if (!request.body.empty()) text += " |" + request.body;
  return text + flags + "\n";
}

class Requests {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty() && !reader_.error()) {
      bytes.remove_prefix(reader_.feed(bytes));
      if (reader_.is_whole()) seen_ += taken(reader_);
    }
  }
  std::string result() const {
    if (reader_.error()) return seen_ + std::to_string(reader_.error()->status);
    return seen_ + (reader_.is_idle() ? "" : "...");
  }

 private:
  RequestReader reader_{kLimits};
  std::string seen_;
};

struct Reading {
  std::string_view name;
  std::string_view wire;
  std::string_view result;  // "..." at the end: the reader waits for more bytes
};

void PrintTo(const Reading& reading, std::ostream* os) {
  *os << reading.name;
}

#define HOST "Host: a\r\n"

const Reading kRequests[] = {
    {"Nothing", "", ""},
    {"Get", "GET / HTTP/1.1\r\n" HOST "\r\n", "GET /\n"},
    {"Pipelined",
     "GET /a HTTP/1.1\r\n" HOST "\r\nPOST /b HTTP/1.1\r\n" HOST
     "Content-Length: 2\r\n\r\nhiGET /c HTTP/1.1\r\n" HOST "\r\n",
     "GET /a\nPOST /b |hi\nGET /c\n"},
    {"QueryIsNotDecoded", "GET /a%20b?c=%20&d HTTP/1.1\r\n" HOST "\r\n", "GET /a b ?c=%20&d\n"},
    {"MethodMayBeAnyToken", "BREW! /pot HTTP/1.1\r\n" HOST "\r\n", "BREW! /pot\n"},
    {"AbsoluteFormHasAPath", "GET http://x:1/y?z HTTP/1.1\r\n" HOST "\r\n", "GET /y ?z\n"},
    {"AbsoluteFormWithoutPath", "GET HTTPS://x HTTP/1.1\r\n" HOST "\r\n", "GET /\n"},
    {"StarForm", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS *\n"},
    {"AuthorityForm", "CONNECT x:1 HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"OneEmptyLineBeforeIsSkipped", "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET /\n"},
    {"TwoEmptyLinesBefore", "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"HeadIsCut", "GET / HTTP/1.1\r\nHo", "..."},
    {"BodyIsCut", "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab", "..."},

    {"LineFeedAlone", "GET / HTTP/1.1\nHost: a\n\n", "400"},
    {"CarriageReturnAlone", "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", "400"},
    {"NulInHead", "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n"sv, "400"},
    {"NulInTarget", "GET /a%00b HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"BadEscape", "GET /%zz HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"EscapeIsCut", "GET /%4 HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TargetNotUtf8", "GET /%ff HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TargetHasFragment", "GET /a#b HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TargetHasSpace", "GET /a b HTTP/1.1\r\n" HOST "\r\n", "505"},
    {"TargetIsRelative", "GET a HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TargetHasAnotherScheme", "GET ftp://a/b HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TargetMissing", "GET HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"TlsHello", "\x16\x03\x01\x02\x00\x01"sv, "400"},
    {"StartsWithSpace", " GET / HTTP/1.1\r\n\r\n", "400"},
    {"MethodNotAToken", "G(T / HTTP/1.1\r\n" HOST "\r\n", "400"},
    {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
    {"Http1Dot2", "GET / HTTP/1.2\r\n\r\n", "505"},
    {"Http09", "GET /\r\n\r\n", "400"},
    {"RequestLineTooShort", "G / H\r\n\r\n", "400"},
    {"VersionInLowerCase", "GET / http/1.1\r\n" HOST "\r\n", "505"},

    {"HostMissing", "GET / HTTP/1.1\r\n\r\n", "400"},
    {"HostTwice", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", "400"},
    {"FieldFolded", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "400"},
    {"SpaceBeforeColon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"},
    {"FieldFoldedByTab", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", "400"},
    {"FirstFieldFolded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400"},
    {"FieldWithoutColon", "GET / HTTP/1.1\r\n" HOST "x\r\n\r\n", "400"},
    {"FieldWithoutName", "GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", "400"},
    {"FieldsAtTheLimit", "GET / HTTP/1.1\r\n" HOST "a:\r\nb:\r\nc:\r\n\r\n", "GET /\n"},
    {"FieldsOverTheLimit", "GET / HTTP/1.1\r\n" HOST "a:\r\nb:\r\nc:\r\nd:\r\n\r\n", "431"},
    {"HeadOverTheLimit",
     "GET / HTTP/1.1\r\n" HOST
     "A: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
     "890123456789\r\n\r\n",
     "431"},
    {"RequestLineOverTheLimit",
     "GET "
     "/01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
     "901234567890123456789012345678901234567890 HTTP/1.1\r\n",
     "414"},

    {"Http10Closes", "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close\n"},
    {"Http10KeepsAliveIfAsked", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0\n"},
    {"CloseAmongTokens", "GET / HTTP/1.1\r\n" HOST "Connection: x , CLOSE\r\n\r\n",
     "GET / close\n"},

    {"LengthZero", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", "POST /\n"},
    {"LengthAtTheLimit",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 32\r\n\r\n01234567890123456789012345678901",
     "POST / |01234567890123456789012345678901\n"},
    {"LengthOverTheLimit", "POST / HTTP/1.1\r\n" HOST "Content-Length: 33\r\n\r\n", "413"},
    {"LengthTwice", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
     "400"},
    {"LengthIsAList", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na", "400"},
    {"LengthTooManyDigits",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 0000000000000000000\r\n\r\n", "400"},
    {"LengthListed", "POST / HTTP/1.1\r\n" HOST "Content-Length: 1,\r\n\r\na", "400"},
    {"LengthTwiceAndDifferent",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", "400"},
    {"LengthQuoted", "POST / HTTP/1.1\r\n" HOST "Content-Length: \"1\"\r\n\r\na", "400"},
    {"LengthNegative", "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", "400"},
    {"LengthSigned", "POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", "400"},
    {"LengthHexadecimal", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na", "400"},
    {"LengthEmpty", "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", "400"},
    {"LengthOverflows", "POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551617\r\n\r\n",
     "400"},
    {"LengthAndChunks",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "400"},
    {"ChunksAndLength",
     "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
     "400"},
    {"CodingUnknownAlone", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", "501"},
    {"CodingEmpty", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", "501"},
    {"ChunksWithHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
    {"CodingTwice",
     "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\ntransfer-encoding: x\r\n\r\n",
     "400"},
    {"CodingUnknown", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
    {"CodingObscured", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \vchunked\r\n\r\n", "400"},
    {"ExpectationUnknown", "POST / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", "417"},

#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
    {"Chunks", CHUNKED "3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
     "POST / |abc0123456789\nGET /\n"},
    {"ChunksEmpty", CHUNKED "0\r\n\r\n", "POST /\n"},
    {"ChunkExtensionIsDropped", CHUNKED "1;a=\"b\"\r\nx\r\n0 ;c\r\n\r\n", "POST / |x\n"},
    {"TrailersAreDropped", CHUNKED "0\r\nHost: b\r\nX: y\r\n\r\n", "POST /\n"},
    {"TrailersAreNoFields", CHUNKED "0\r\na:\r\nb:\r\nc:\r\nd:\r\ne:\r\n\r\n", "POST /\n"},
    {"TrailerHasLength", CHUNKED "0\r\nContent-Length: 9\r\n\r\n", "400"},
    {"TrailerHasCoding", CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
    {"TrailerFoldedLater", CHUNKED "0\r\nA: b\r\n c\r\n\r\n", "400"},
    {"TrailerWithoutColon", CHUNKED "0\r\nA\r\n\r\n", "400"},
    {"ChunksAtTheLimit", CHUNKED "1f\r\n0123456789012345678901234567890\r\n1\r\nx\r\n0\r\n\r\n",
     "POST / |0123456789012345678901234567890x\n"},
    {"ChunksOverTheLimit", CHUNKED "1f\r\n0123456789012345678901234567890\r\n2\r\nx", "413"},
    {"ChunkSizeMissing", CHUNKED "\r\n", "400"},
    {"ChunkSizeNegative", CHUNKED "-2\r\n", "400"},
    {"ChunkSizeWithPrefix", CHUNKED "0x1\r\na\r\n\r\n", "400"},
    {"ChunkSizeOverflows", CHUNKED "10000000000000001\r\na", "400"},
    {"ChunkSizeAtItsLongest", CHUNKED "000000000000001\r\na\r\n0\r\n\r\n", "POST / |a\n"},
    {"ChunkSizeTooLong", CHUNKED "0000000000000001\r\na\r\n0\r\n\r\n", "400"},
    {"ChunkSizeTooLongLater", CHUNKED "1\r\na\r\n0000000000000001\r\na\r\n0\r\n\r\n", "400"},
    {"LastChunkSizeAtItsLongest", CHUNKED "1\r\na\r\n000000000000000\r\n\r\n", "POST / |a\n"},
    {"LastChunkSizeTooLong", CHUNKED "1\r\na\r\n0000000000000000\r\n\r\n", "400"},
    {"ChunkSizeLineEndsInLf", CHUNKED "1\na\r\n0\r\n\r\n", "400"},
    {"ChunkExtensionsOverTheLimit",
     CHUNKED
     "1;a=012345678901234567890123456789\r\nx\r\n1;a=012345678901234567890123456789\r\nx\r\n"
     "1;a=012345678901234567890123456789\r\nx\r\n1;a=012345678901234567890123456789\r\nx\r\n"
     "1;a=012345678901234567890123456789\r\nx\r\n1;a=012345678901234567890123456789\r\nx\r\n"
     "1;a=012345678901234567890123456789\r\nx\r\n1;a=012345678901234567890123456789\r\nx\r\n",
     "400"},
    {"ChunkSizesOfMoreThanTheLimit",
     CHUNKED "1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n"
             "1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n"
             "1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n1\r\na\r\n"
             "0\r\n\r\n",
     "POST / |aaaaaaaaaaaaaaaaaaaaaaaa\n"},
    {"ChunkExtensionQuotesLf", CHUNKED "1;a=\"\n\"\r\nx\r\n0\r\n\r\n", "400"},
    {"ChunkExtensionHasLf", CHUNKED "1;\na\r\n", "400"},
    {"ChunkDataTooLong", CHUNKED "1\r\nabc\r\n0\r\n\r\n", "400"},
    {"ChunkDataEndsInLf", CHUNKED "1\r\na\n0\r\n\r\n", "400"},
    {"ChunkEndIsNotLf", CHUNKED "1\r\na\rX0\r\n\r\n", "400"},
    {"TrailerFolded", CHUNKED "0\r\n x\r\n\r\n", "400"},
    {"TrailerHasLf", CHUNKED "0\r\nA: b\nc\r\n\r\n", "400"},
    {"TrailersOverTheLimit",
     CHUNKED
     "0\r\nA: "
     "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
     "678901234567890123456789012345678901234567890\r\n\r\n",
     "400"},
};

class RequestReading : public ::testing::TestWithParam<Reading> {};

TEST_P(RequestReading, IsTheSameWhereverTheStreamIsCut) {
  const std::string_view wire = GetParam().wire;
  for (std::size_t first = 0; first <= wire.size(); ++first) {
    for (std::size_t second = first; second <= wire.size(); ++second) {
      Requests requests;
      requests.feed(wire.substr(0, first));
      requests.feed(wire.substr(first, second - first));
      requests.feed(wire.substr(second));
      ASSERT_EQ(requests.result(), GetParam().result) << "cut at " << first << " and " << second;
    }
  }
  Requests requests;
  for (const char& byte : wire) requests.feed({&byte, 1});
  EXPECT_EQ(requests.result(), GetParam().result);
}

INSTANTIATE_TEST_SUITE_P(Rules, RequestReading, ::testing::ValuesIn(kRequests),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RequestReader, RefusesAtTheFirstByteThatNoRequestHas) {
  for (std::string_view garbage : {"\x16\x03\x01"sv, "\0"sv, "\x80"sv, "{"sv, "\n"sv}) {
    RequestReader reader(kLimits);
    reader.feed(garbage.substr(0, 1));
    ASSERT_TRUE(reader.error()) << static_cast<int>(garbage[0]);
    EXPECT_EQ(reader.error()->status, 400U);
  }
}

TEST(RequestReader, AwaitsContinueUntilTheBodyBegins) {
  RequestReader reader(kLimits);
  reader.feed("POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r");
  EXPECT_FALSE(reader.awaits_continue());
  reader.feed("\n");
  EXPECT_TRUE(reader.awaits_continue());
  reader.feed("a");
  EXPECT_FALSE(reader.awaits_continue());
  reader.feed("b");
  EXPECT_EQ(reader.take().body, "ab");
  reader.feed("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n");
  EXPECT_FALSE(reader.awaits_continue());
}

TEST(RequestReader, KeepsFieldsAsTheyCame) {
  RequestReader reader(kLimits);
  reader.feed("GET / HTTP/1.1\r\nhOST:\t a \t\r\nX: 1\r\nx: \xc3\xa9 2\r\n\r\n");
  const Request request = reader.take();
  ASSERT_EQ(request.headers.size(), 3U);
  EXPECT_EQ(request.headers[0].name, "hOST");
  EXPECT_EQ(request.headers[2].value, "\xc3\xa9 2");
  EXPECT_EQ(request.header("Host"), "a");
  EXPECT_EQ(request.header("X"), "1");
  EXPECT_EQ(request.header("Y"), "");
  EXPECT_EQ(request.target, "/");
}

// ------------------------------------------------------------------------------------ responses

std::string read_response(const std::vector<std::string_view>& pieces, bool to_head) {
  ResponseReader reader(kLimits, to_head);
  std::string body;
  std::string rest;
  for (std::string_view piece : pieces) {
    while (!piece.empty() && !reader.error() && !reader.is_whole()) {
      piece.remove_prefix(reader.feed(piece, body));
    }
    rest += piece;
  }
  if (reader.error()) return std::to_string(reader.error()->status);
  const bool was_whole = reader.is_whole();
  if (!was_whole && !reader.finish_at_close()) return "cut";
  return std::to_string(reader.status()) + " |" + body + (was_whole ? "" : " at close") +
         (reader.keeps_alive() ? "" : " close") + (rest.empty() ? "" : " rest " + rest);
}

const Reading kResponses[] = {
    {"WithLength", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 |hi"},
    {"BytesAfterItAreLeft", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!", "200 |hi rest !"},
    {"WithChunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
     "200 |hi"},
    {"UntilClose", "HTTP/1.1 200 OK\r\n\r\nhi", "200 |hi at close close"},
    {"Http10", "HTTP/1.0 404 No\r\nContent-Length: 1\r\n\r\nx", "404 |x close"},
    {"WithoutReason", "HTTP/1.1 500\r\nContent-Length: 0\r\n\r\n", "500 |"},
    {"WithoutReasonButASpace", "HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", "500 |"},
    {"StatusLineTooShort", "H\r\n\r\n", "502"},
    {"StatusTooLong", "HTTP/1.1 2000 OK\r\n\r\n", "502"},
    {"VersionUnknown", "HTTP/2.0 200 OK\r\n\r\n", "502"},
    {"ChunksWithHttp10",
     "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "400"},
    {"NoContent", "HTTP/1.1 204 No\r\n\r\n", "204 |"},
    {"NotModified", "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", "304 |"},
    {"InterimIsSkipped",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nA: b\r\n\r\nHTTP/1.1 200 "
     "OK\r\nContent-Length: "
     "1\r\n\r\nx",
     "200 |x"},
    {"SwitchingProtocols", "HTTP/1.1 101 X\r\n\r\n", "502"},
    {"LengthIsCut", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", "cut"},
    {"ChunksAreCut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n",
     "cut"},
    {"HeadIsCut", "HTTP/1.1 200 OK\r\n", "cut"},
    {"NotHttp", "SSH-2.0-OpenSSH\r\n\r\n", "502"},
    {"StatusNotANumber", "HTTP/1.1 2x0 OK\r\n\r\n", "502"},
    {"StatusOutOfRange", "HTTP/1.1 999 OK\r\n\r\n", "502"},
    {"BodyOverTheLimit", "HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n", "413"},
    {"BodyOverTheLimitAtClose", "HTTP/1.1 200 OK\r\n\r\n012345678901234567890123456789012", "413"},
    {"LengthAndChunks",
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
};

class ResponseReading : public ::testing::TestWithParam<Reading> {};

TEST_P(ResponseReading, IsTheSameWhereverTheStreamIsCut) {
  const std::string_view wire = GetParam().wire;
  for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
    EXPECT_EQ(read_response({wire.substr(0, cut), wire.substr(cut)}, false), GetParam().result)
        << "cut at " << cut;
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < wire.size(); ++i) bytes.push_back(wire.substr(i, 1));
  EXPECT_EQ(read_response(bytes, false), GetParam().result);
}

INSTANTIATE_TEST_SUITE_P(Rules, ResponseReading, ::testing::ValuesIn(kResponses),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ResponseReader, ReadsNoBodyAfterHead) {
  EXPECT_EQ(read_response({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, true), "200 |");
}

TEST(ResponseReader, FailsAtEndlessInterimResponses) {
  std::string wire;
  for (int i = 0; i < 20; ++i) wire += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(read_response({wire}, false), "502");
}

// -------------------------------------------------------------------------------------- details

TEST(PercentDecoded, DecodesEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kLower = "0123456789abcdef";
    constexpr std::string_view kUpper = "0123456789ABCDEF";
    const std::string expected(1, static_cast<char>(byte));
    const auto high = static_cast<std::size_t>(byte / 16);
    const auto low = static_cast<std::size_t>(byte % 16);
    EXPECT_EQ(percent_decoded(std::string{'%', kLower[high], kUpper[low]}), expected);
  }
  EXPECT_EQ(percent_decoded("a+b%2Bc"), "a+b+c");
  for (std::string_view bad : {"%", "%4", "%4g", "%g4", "a%", "%%41"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
}

TEST(HttpDate, IsTheOneOfTheStandard) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(ListsToken, ReadsEveryElementOfEveryField) {
  const std::vector<Header> headers{{"Connection", "a ,\tB"}, {"connection", ",c"}, {"X", "d"}};
  for (std::string_view token : {"a", "b", "C"}) {
    EXPECT_TRUE(lists_token(headers, "CONNECTION", token)) << token;
  }
  for (std::string_view token : {"d", "a ", "ab"}) {
    EXPECT_FALSE(lists_token(headers, "connection", token)) << token;
  }
}

TEST(AppendChunk, IsReadBack) {
  ResponseReader reader(WireLimits{}, /*to_head=*/false);
  std::string wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string data;
  for (std::size_t size : {1, 15, 16, 255, 256, 4096}) {
    append_chunk(wire, std::string(size, 'x'));
    data.append(size, 'x');
  }
  wire += kLastChunk;
  std::string body;
  EXPECT_EQ(reader.feed(wire, body), wire.size());
  EXPECT_TRUE(reader.is_whole());
  EXPECT_EQ(body, data);
}

}  // namespace
}  // namespace tenon::http
