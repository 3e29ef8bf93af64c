#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/// A plain blocking client socket: it sends exactly the bytes that the test gives it.
namespace tenon::http {

class TestSocket {
 public:
  explicit TestSocket(std::uint16_t port, int receive_buffer = 0)
      : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr generic{};
    static_assert(sizeof generic == sizeof address);
    std::memcpy(&generic, &address, sizeof address);
    connected_ = ::connect(descriptor_, &generic, sizeof address) == 0;
  }
  TestSocket(TestSocket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  TestSocket(const TestSocket&) = delete;
  TestSocket& operator=(const TestSocket&) = delete;
  ~TestSocket() { close(); }

  [[nodiscard]] bool is_connected() const { return connected_; }

  /// False once the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// The next bytes, at most `most`; "" at the end, at a reset, or after `timeout`.
  std::string receive(std::size_t most = 64 << 10,
                      std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return {};
    std::string bytes(most, '\0');
    const auto received = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    bytes.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
    return bytes;
  }

  /// Everything since the last `until` or `rest`, up to and including `mark`; less at the end.
  std::string until(std::string_view mark) {
    std::size_t found = buffer_.find(mark);
    while (found == std::string::npos) {
      const std::string more = receive();
      if (more.empty()) return std::exchange(buffer_, {});
      const std::size_t from = buffer_.size() < mark.size() ? 0 : buffer_.size() - mark.size();
      buffer_ += more;
      found = buffer_.find(mark, from);
    }
    std::string text = buffer_.substr(0, found + mark.size());
    buffer_.erase(0, text.size());
    return text;
  }
  /// Everything until the server closes.
  std::string rest() {
    std::string text = std::exchange(buffer_, {});
    for (std::string more = receive(); !more.empty(); more = receive()) text += more;
    return text;
  }

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  /// Closes with a reset instead of an end.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void close_sending_half() { ::shutdown(descriptor_, SHUT_WR); }

 private:
  int descriptor_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace tenon::http
