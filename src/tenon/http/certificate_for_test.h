#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

namespace tenon::http {

/// A key and a self-signed certificate for `name`, in files that are removed with this object.
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& name) {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* subject = X509_get_subject_name(certificate.get());
    const std::string organisation = "Tenon tests";
    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(organisation.data()),
                               static_cast<int>(organisation.size()), -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    add(certificate.get(), NID_subject_alt_name, "DNS:" + name);
    add(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate.get(), key.get(), EVP_sha256());

    write(certificate_file(), [&](std::FILE* f) { return PEM_write_X509(f, certificate.get()); });
    write(key_file(), [&](std::FILE* f) {
      return PEM_write_PrivateKey(f, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;
  ~TestCertificate() {
    std::filesystem::remove(certificate_file());
    std::filesystem::remove(key_file());
  }

  [[nodiscard]] std::string certificate_file() const { return base_ + ".crt"; }
  [[nodiscard]] std::string key_file() const { return base_ + ".key"; }

 private:
  static void add(X509* certificate, int id, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  template <class Write>
  static void write(const std::string& path, Write write) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr || write(file) != 1) throw std::runtime_error("cannot write " + path);
    std::fclose(file);
  }

  const std::string base_ = std::filesystem::temp_directory_path() /
                            ("tenon-" + std::to_string(::getpid()) + "-" +
                             std::to_string(reinterpret_cast<std::uintptr_t>(this)));
};

}  // namespace tenon::http
