/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/tls.c - certificates, and sessions made from them.
 *
 * Owns:  the OpenSSL context. A reload makes a new one and swaps it in; connections that were made
 *        from the old one keep it until they end.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "wire/impl.h"

struct wire_tls {
	SSL_CTX *ctx;
	char *cert, *key;
};

/* Our order decides: HTTP/2 when the client can, else HTTP/1.1. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\2h2\10http/1.1";
	unsigned char *pick;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&pick, out_len, ours, sizeof(ours) - 1, in, in_len) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = pick;
	return SSL_TLSEXT_ERR_OK;
}

static int fail(struct err *e, const char *what, const char *file)
{
	unsigned long code = ERR_get_error();
	const char *why = ERR_reason_error_string(code);

	if (!why)
		why = "not accepted";
	ERR_clear_error();
	return err_say(e, EINVAL, "%s '%s': %s", what, file, why);
}

/* Nobody sits in front of a daemon: a key with a pass phrase is refused, and nobody is asked. */
static int on_phrase(char *buf, int size, int writing, void *encrypted)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)encrypted = true;
	return -1;
}

static int key_load(SSL_CTX *ctx, const char *key, struct err *e)
{
	bool encrypted = false, ok;

	SSL_CTX_set_default_passwd_cb(ctx, on_phrase);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
	ok = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
	/* One of another kind is loaded beside the certificate, and found out only here. */
	if (ok && SSL_CTX_check_private_key(ctx) == 1)
		return 0;
	if (encrypted) {
		ERR_clear_error();
		return err_say(e, EINVAL,
			"private key '%s' has a pass phrase: give one without (openssl pkey)", key);
	}
	if (ok || ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
		ERR_clear_error();
		return err_say(
			e, EINVAL, "private key '%s' does not belong to the certificate", key);
	}
	return fail(e, "reading private key", key);
}

static void context_settings(SSL_CTX *ctx)
{
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets need none */
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
}

static int context_load(const char *cert, const char *key, SSL_CTX **ret, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int r = 0;

	if (!ctx)
		return err_set(e, ENOMEM, "making a TLS context");
	context_settings(ctx);
	if (access(cert, R_OK) < 0)
		r = err_set(e, errno, "reading certificate '%s'", cert);
	else if (access(key, R_OK) < 0)
		r = err_set(e, errno, "reading private key '%s'", key);
	else if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		r = fail(e, "reading certificate", cert);
	else
		r = key_load(ctx, key, e);
	if (r < 0)
		SSL_CTX_free(ctx);
	else
		*ret = ctx;
	return r;
}

int wire_tls_create(const char *cert, const char *key, struct wire_tls **ret, struct err *e)
{
	struct wire_tls *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(e, ENOMEM, "making a TLS context");
	t->cert = strdup(cert);
	t->key = strdup(key);
	if (!t->cert || !t->key)
		r = err_set(e, ENOMEM, "making a TLS context");
	else
		r = context_load(cert, key, &t->ctx, e);
	if (r < 0) {
		wire_tls_destroy(t);
		return r;
	}
	*ret = t;
	return 0;
}

int wire_tls_reload(struct wire_tls *t, struct err *e)
{
	SSL_CTX *ctx;
	int r = context_load(t->cert, t->key, &ctx, e);

	if (r < 0)
		return r;
	SSL_CTX_free(t->ctx);
	t->ctx = ctx;
	return 0;
}

const char *wire_tls_trouble(const struct wire_tls *t)
{
	const X509 *x = SSL_CTX_get0_certificate(t->ctx);

	if (x && X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
		return "has expired";
	if (x && X509_cmp_current_time(X509_get0_notBefore(x)) > 0)
		return "is not valid yet";
	return NULL;
}

void wire_tls_destroy(struct wire_tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	free(t->cert);
	free(t->key);
	free(t);
}

struct ssl_st *tls_accept(struct wire_tls *t, int fd)
{
	SSL *ssl = SSL_new(t->ctx);

	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

void tls_free(struct ssl_st *ssl)
{
	SSL_free(ssl);
}

bool tls_is_h2(struct ssl_st *ssl)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(ssl, &name, &len);
	return len == 2 && memcmp(name, "h2", 2) == 0;
}
