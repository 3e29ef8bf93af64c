#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/// A server whose bytes the test writes.
namespace tenon::http {

/// Calls `script` with each accepted connection, one after the other.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(int connection, int number)> script)
      : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr generic{};
    std::memcpy(&generic, &address, sizeof address);
    socklen_t size = sizeof generic;
    if (::bind(listener_, &generic, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, &generic, &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    std::memcpy(&address, &generic, sizeof address);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, script = std::move(script)] {
      for (int number = 0;; ++number) {
        const int connection = ::accept(listener_, nullptr, nullptr);
        if (connection < 0) return;
        script(connection, number);
        ::close(connection);
      }
    });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

 private:
  int listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// Reads up to the end of a request head; false at the end of the connection.
inline bool read_head(int connection) {
  std::string text;
  std::array<char, 1024> bytes{};
  while (text.find("\r\n\r\n") == std::string::npos) {
    const auto count = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return true;
}

/// Sends `bytes`; false once the other side is gone.
inline bool say(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// Reads a whole request with a Content-Length: its head and body; "" at the end of the connection.
inline std::string read_request(int connection) {
  std::string text;
  std::array<char, 16384> bytes{};
  while (true) {
    const auto head_end = text.find("\r\n\r\n");
    if (head_end != std::string::npos) {
      const auto length = text.find("Content-Length: ");
      const std::size_t body =
          length < head_end ? std::stoul(text.substr(length + std::strlen("Content-Length: "))) : 0;
      if (text.size() >= head_end + 4 + body) return text;
    }
    const auto count = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (count <= 0) return "";
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace tenon::http
