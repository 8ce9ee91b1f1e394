/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/manifest.c - the JSON documents of an image.
 *
 * Owns:  what is accepted of them.
 * Rules: hostile input. Digests and sizes are checked here, once; what leaves this file can be put
 *        into a path or a URL. Strings that are shown pass str_show.
 */
#include <errno.h>
#include <jansson.h>
#include <sys/utsname.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "image/manifest.h"
#include "template/record.h"
#include "template/ref.h"

static void json_done(json_t **j)
{
	json_decref(*j);
}
#define own_json __attribute__((cleanup(json_done)))

struct platform platform_here(void)
{
	static const struct {
		const char *machine, *arch;
	} table[] = {
		{ "x86_64", "amd64" },
		{ "aarch64", "arm64" },
		{ "armv7l", "arm" },
		{ "i686", "386" },
		{ "riscv64", "riscv64" },
		{ "ppc64le", "ppc64le" },
		{ "s390x", "s390x" },
	};
	struct platform p = { "linux", "unknown" };
	struct utsname u;

	if (uname(&u) == 0)
		for (size_t i = 0; i < ARRAY_LEN(table); i++)
			if (str_eq(u.machine, table[i].machine))
				p.arch = table[i].arch;
	return p;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static json_t *load(const struct buf *text, const char *what, struct err *e)
{
	json_error_t why;
	json_t *j =
		json_loadb(text->data ? text->data : "", text->len, JSON_REJECT_DUPLICATES, &why);
	char shown[120];

	if (!j)
		err_say(e, EBADMSG, "%s is no JSON: %s", what,
			str_show(shown, sizeof(shown), why.text));
	return j;
}

static int descriptor_parse(const json_t *j, struct descriptor *ret, struct err *e)
{
	const char *digest = text_of(j, "digest");
	const json_t *size = json_object_get(j, "size");
	char shown[96];

	if (!ref_digest_is_valid(digest))
		return err_say(e, EBADMSG, "'%s' is not a sha256 digest",
			str_show(shown, sizeof(shown), digest));
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_say(e, EBADMSG, "a part of it has no size");
	*ret = (struct descriptor){ .size = (uint64_t)json_integer_value(size) };
	return str_copy(ret->digest, sizeof(ret->digest), digest);
}

#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

static bool is_one_of(const char *type, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(type, list[i]))
			return true;
	return false;
}

static bool is_layer_type(const char *type)
{
	static const char *const types[] = {
		OCI "layer.v1.tar",
		OCI "layer.v1.tar+gzip",
		OCI "layer.v1.tar+zstd",
		OCI "layer.nondistributable.v1.tar",
		OCI "layer.nondistributable.v1.tar+gzip",
		OCI "layer.nondistributable.v1.tar+zstd",
		DOCKER "image.rootfs.diff.tar",
		DOCKER "image.rootfs.diff.tar.gzip",
		DOCKER "image.rootfs.diff.tar.zstd",
		DOCKER "image.rootfs.foreign.diff.tar.gzip",
	};

	return is_one_of(type, types, ARRAY_LEN(types));
}

static bool is_index_type(const char *type)
{
	static const char *const types[] = { OCI "index.v1+json",
		DOCKER "distribution.manifest.list.v2+json" };

	return is_one_of(type, types, ARRAY_LEN(types));
}

static bool is_manifest_type(const char *type)
{
	static const char *const types[] = { OCI "manifest.v1+json",
		DOCKER "distribution.manifest.v2+json" };

	return is_one_of(type, types, ARRAY_LEN(types));
}

static bool is_config_type(const char *type)
{
	static const char *const types[] = { OCI "config.v1+json",
		DOCKER "container.image.v1+json" };

	return is_one_of(type, types, ARRAY_LEN(types));
}

static int check_layer_count(size_t count, struct err *e)
{
	if (!count)
		return err_say(e, EBADMSG, "the image has no layers");
	if (count > LAYERS_MAX)
		return err_say(e, E2BIG, "the image has %zu layers; at most %d are accepted", count,
			LAYERS_MAX);
	return 0;
}

static int manifest_parse(const json_t *j, struct manifest *ret, struct err *e)
{
	const json_t *config = json_object_get(j, "config"), *layers = json_object_get(j, "layers");
	const char *type = text_of(config, "mediaType");
	char shown[120];
	int r = check_layer_count(json_array_size(layers), e);

	if (r < 0)
		return r;
	if (!is_config_type(type))
		return err_say(e, EINVAL, "it is no image that can run: its configuration is '%s'",
			str_show(shown, sizeof(shown), type));
	r = descriptor_parse(config, &ret->config, e);
	if (r == 0 && ret->config.size > IMAGE_CONFIG_MAX)
		r = err_say(e, EFBIG, "its configuration has more than %d bytes", IMAGE_CONFIG_MAX);
	ret->layer_count = (unsigned)json_array_size(layers);
	for (unsigned i = 0; r == 0 && i < ret->layer_count; i++) {
		const json_t *layer = json_array_get(layers, i);

		type = text_of(layer, "mediaType");
		if (!is_layer_type(type))
			r = err_say(e, EINVAL,
				"its layer %u is of the type '%s', which is not known", i + 1,
				str_show(shown, sizeof(shown), type));
		else
			r = descriptor_parse(layer, &ret->layers[i], e);
	}
	return r;
}

/* A name in an index is a tag, or a whole reference that ends in one. */
static bool is_named(const char *name, const char *tag)
{
	size_t n = strlen(name), t = strlen(tag);

	if (str_eq(name, tag))
		return true;
	return n > t && name[n - t - 1] == ':' && str_eq(name + n - t, tag);
}

static bool entry_has_tag(const json_t *entry, const char *tag)
{
	const json_t *notes = json_object_get(entry, "annotations");

	return !tag || !*tag ||
	       is_named(text_of(notes, "org.opencontainers.image.ref.name"), tag) ||
	       is_named(text_of(notes, "io.containerd.image.name"), tag);
}

static bool entry_fits(const json_t *entry, const struct platform *p)
{
	const json_t *of = json_object_get(entry, "platform");

	if (!is_manifest_type(text_of(entry, "mediaType")) &&
		!is_index_type(text_of(entry, "mediaType")))
		return false;
	return !of ||
	       (str_eq(text_of(of, "os"), p->os) && str_eq(text_of(of, "architecture"), p->arch));
}

static int index_choose(const json_t *j, const struct platform *p, const char *tag,
	struct descriptor *ret, struct err *e)
{
	const json_t *list = json_object_get(j, "manifests"), *found = NULL;
	size_t named = 0, fitting = 0;
	char shown[96];
	int r;

	if (json_array_size(list) > IMAGE_INDEX_ENTRIES_MAX)
		return err_say(
			e, E2BIG, "the index has more than %d entries", IMAGE_INDEX_ENTRIES_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *entry = json_array_get(list, i);

		if (!entry_has_tag(entry, tag))
			continue;
		named++;
		if (!entry_fits(entry, p))
			continue;
		/* One that says its platform wins over one that does not. */
		if (!found ||
			(!json_object_get(found, "platform") && json_object_get(entry, "platform")))
			found = entry;
		fitting++;
	}
	str_show(shown, sizeof(shown), tag ? tag : "");
	if (*shown && !named)
		return err_say(e, ENOENT, "nothing in it has the tag '%s'", shown);
	if (!found)
		return err_say(e, ENOENT, "nothing in it is an image for %s/%s", p->os, p->arch);
	if (fitting > 1 && tag && !*tag)
		return err_say(e, EINVAL,
			"it holds %zu images; choose one with a tag: oci:PATH:TAG", fitting);
	r = descriptor_parse(found, ret, e);
	if (r == 0 && ret->size > IMAGE_MANIFEST_MAX)
		r = err_say(e, EFBIG, "its manifest has more than %d bytes", IMAGE_MANIFEST_MAX);
	return r;
}

int document_parse(const struct buf *text, const struct platform *p, const char *tag,
	enum document *ret, struct manifest *ret_manifest, struct descriptor *ret_child,
	struct err *e)
{
	own_json json_t *j = load(text, "its manifest", e);
	const char *type;
	char shown[120];
	int r;

	if (!j)
		return -EBADMSG;
	type = text_of(j, "mediaType"); /* OCI lets both leave it out: then the contents tell */
	if (json_integer_value(json_object_get(j, "schemaVersion")) != 2)
		return err_say(e, EINVAL,
			"its manifest is not of schema version 2, the only one accepted");
	if (is_index_type(type) || (!*type && json_is_array(json_object_get(j, "manifests")))) {
		*ret = DOCUMENT_INDEX;
		return index_choose(j, p, tag, ret_child, e);
	}
	if (*type && !is_manifest_type(type))
		return err_say(e, EINVAL, "its manifest is of the type '%s', which is not known",
			str_show(shown, sizeof(shown), type));
	*ret = DOCUMENT_MANIFEST;
	memset(ret_manifest, 0, sizeof(*ret_manifest));
	r = manifest_parse(j, ret_manifest, e);
	return r;
}

static int member_parse(const json_t *j, struct descriptor *ret, struct err *e)
{
	const char *name = json_string_value(j);

	*ret = (struct descriptor){ 0 };
	if (!name || !*name || str_copy(ret->member, sizeof(ret->member), name) < 0)
		return err_say(e, EBADMSG,
			"its manifest.json names a part with no name, or with a very long one");
	return 0;
}

static bool image_has_tag(const json_t *image, const char *tag)
{
	const json_t *tags = json_object_get(image, "RepoTags"), *one;
	size_t i;

	json_array_foreach (tags, i, one)
		if (json_is_string(one) && is_named(json_string_value(one), tag))
			return true;
	return false;
}

static const json_t *choose_image(const json_t *list, const char *tag, struct err *e)
{
	const json_t *one;
	char shown[96];
	size_t i;

	if (!json_array_size(list)) {
		err_say(e, EBADMSG, "its manifest.json lists no image");
		return NULL;
	}
	if (!*tag && json_array_size(list) > 1) {
		err_say(e, EINVAL, "it holds %zu images; choose one with a tag: oci:PATH:TAG",
			json_array_size(list));
		return NULL;
	}
	json_array_foreach (list, i, one)
		if (!*tag || image_has_tag(one, tag))
			return one;
	err_say(e, ENOENT, "nothing in it has the tag '%s'", str_show(shown, sizeof(shown), tag));
	return NULL;
}

int docker_manifest_parse(
	const struct buf *text, const char *tag, struct manifest *ret, struct err *e)
{
	own_json json_t *j = load(text, "its manifest.json", e);
	const json_t *image = j ? choose_image(j, tag, e) : NULL, *layers;
	int r;

	if (!image)
		return j && e && e->code ? -e->code : -EBADMSG;
	memset(ret, 0, sizeof(*ret));
	layers = json_object_get(image, "Layers");
	r = check_layer_count(json_array_size(layers), e);
	if (r == 0)
		r = member_parse(json_object_get(image, "Config"), &ret->config, e);
	if (r == 0)
		ret->layer_count = (unsigned)json_array_size(layers);
	for (unsigned i = 0; r == 0 && i < ret->layer_count; i++)
		r = member_parse(json_array_get(layers, i), &ret->layers[i], e);
	return r;
}

static int words(const json_t *list, const char **to, unsigned *count, unsigned max, size_t *bytes,
	const char *what, struct err *e)
{
	const json_t *one;
	size_t i;

	if (list && !json_is_null(list) && !json_is_array(list))
		return err_say(e, EBADMSG, "its configuration has a %s that is no list", what);
	json_array_foreach (list, i, one) {
		if (!json_is_string(one))
			return err_say(
				e, EBADMSG, "its configuration has a %s that is no text", what);
		*bytes += json_string_length(one) + 1 + sizeof(char *);
		if (*count >= max || *bytes > ARGS_BYTES_MAX)
			return err_say(e, E2BIG, "its configuration has too much %s", what);
		to[(*count)++] = json_string_value(one);
	}
	return 0;
}

static int config_words(const json_t *c, struct record *rec, struct err *e)
{
	size_t bytes = 0;
	int r = words(json_object_get(c, "Env"), rec->env, &rec->env_count, ENV_VARS_MAX, &bytes,
		"Env", e);

	if (r == 0)
		r = words(json_object_get(c, "Entrypoint"), rec->cmd, &rec->cmd_count,
			TEMPLATE_ARGS_MAX, &bytes, "Entrypoint", e);
	if (r == 0)
		r = words(json_object_get(c, "Cmd"), rec->cmd, &rec->cmd_count, TEMPLATE_ARGS_MAX,
			&bytes, "Cmd", e);
	for (unsigned i = 0; r == 0 && i < rec->env_count; i++)
		if (!strchr(rec->env[i], '=') || rec->env[i][0] == '=')
			r = err_say(
				e, EBADMSG, "its configuration has an Env that is not NAME=VALUE");
	if (r < 0)
		return r;
	rec->workdir = text_of(c, "WorkingDir");
	rec->user = text_of(c, "User");
	if (*rec->workdir && *rec->workdir != '/')
		return err_say(
			e, EBADMSG, "its configuration has a WorkingDir that is not absolute");
	if (strlen(rec->workdir) >= WARD_PATH_MAX || strlen(rec->user) > 255)
		return err_say(
			e, EBADMSG, "its configuration has a WorkingDir or User that is too long");
	return 0;
}

static int check_platform(const json_t *j, const struct platform *p, struct err *e)
{
	const char *os = text_of(j, "os"), *arch = text_of(j, "architecture");
	char show_os[32], show_arch[32];

	/* Old builders left both out; what they built for then shows when it starts. */
	if ((!*os || str_eq(os, p->os)) && (!*arch || str_eq(arch, p->arch)))
		return 0;
	return err_say(e, EINVAL, "the image is for %s/%s and this machine is %s/%s",
		str_show(show_os, sizeof(show_os), os),
		str_show(show_arch, sizeof(show_arch), arch), p->os, p->arch);
}

static int diff_ids(const json_t *j, unsigned layer_count, struct config *ret, struct err *e)
{
	const json_t *list = json_object_get(json_object_get(j, "rootfs"), "diff_ids");
	char shown[96];

	if (json_array_size(list) != layer_count)
		return err_say(e, EBADMSG, "its configuration lists %zu layers and its manifest %u",
			json_array_size(list), layer_count);
	for (unsigned i = 0; i < layer_count; i++) {
		const char *id = json_string_value(json_array_get(list, i));

		if (!id || !ref_digest_is_valid(id))
			return err_say(e, EBADMSG, "the diff id '%s' is not a sha256 digest",
				str_show(shown, sizeof(shown), id ? id : ""));
		memcpy(ret->diff_ids[i], id, DIGEST_TEXT);
	}
	return 0;
}

int config_parse(const struct buf *text, const struct platform *p, unsigned layer_count,
	struct config *ret, struct record *ret_record, struct err *e)
{
	own_json json_t *j = load(text, "its configuration", e);
	int r;

	if (!j)
		return -EBADMSG;
	r = check_platform(j, p, e);
	if (r == 0)
		r = diff_ids(j, layer_count, ret, e);
	if (r == 0)
		r = config_words(json_object_get(j, "config"), ret_record, e);
	if (r == 0)
		ret->json_ = take_ptr(&j);
	return r;
}

void config_done(struct config *c)
{
	json_decref(c->json_);
	c->json_ = NULL;
}
