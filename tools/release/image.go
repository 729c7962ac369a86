package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// In an image the program runs as this user, whose home is the one place besides /tmp that it can write to.
const (
	user = 65532
	home = "home/turnwise/"
)

// image writes an image that has the program and nothing else to run. It is an OCI layout, which every tool for images
// reads, and has the one file more that `docker load` of any age wants.
func (r *release) image(t target, program []byte) error {
	rootFS := []file{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0::/:\nturnwise:x:%d:%d::/%s:\n", user, user, home)},
		{"home/", 0o755, nil},
		{home, 0o755, nil},
		{"tmp/", 0o777 | fs.ModeSticky, nil},
		{"turnwise", 0o755, program},
		{"usr/", 0o755, nil},
		{"usr/share/", 0o755, nil},
		{"usr/share/doc/", 0o755, nil},
		{"usr/share/doc/turnwise/", 0o755, nil},
	}
	for _, f := range r.texts {
		if f.name == "LICENSE" || f.name == "NOTICE" {
			rootFS = append(rootFS, file{"usr/share/doc/turnwise/" + f.name, f.mode, f.data})
		}
	}
	plain, err := tarred(rootFS, r.when)
	if err != nil {
		return err
	}
	layer := gzipped(plain)
	type object map[string]any
	created := r.when.Format(time.RFC3339)
	config := encoded(object{
		"created": created, "architecture": t.arch, "os": t.os,
		"config": object{
			"User": fmt.Sprintf("%d:%d", user, user), "Entrypoint": []string{"/turnwise"}, "WorkingDir": "/",
			"Env": []string{"PATH=/", "HOME=/" + home},
			"Labels": object{
				"org.opencontainers.image.title": "turnwise", "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://github.com/turnwise/turnwise",
			},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []object{{"created": created, "created_by": "tools/release"}},
	})
	describe := func(kind string, data []byte) object {
		return object{"mediaType": "application/vnd.oci.image." + kind, "digest": digest(data), "size": len(data)}
	}
	manifest := encoded(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("config.v1+json", config), "layers": []object{describe("layer.v1.tar+gzip", layer)},
	})
	entry := describe("manifest.v1+json", manifest)
	entry["platform"] = object{"architecture": t.arch, "os": t.os}
	entry["annotations"] = object{"org.opencontainers.image.ref.name": r.version}
	whole := []file{
		{"oci-layout", 0o644, encoded(object{"imageLayoutVersion": "1.0.0"})},
		{"index.json", 0o644, encoded(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []object{entry}})},
		{"manifest.json", 0o644, encoded([]object{{"Config": blob(config), "Layers": []string{blob(layer)}, "RepoTags": []string{"turnwise:" + r.version}}})},
		{"blobs/", 0o755, nil},
		{"blobs/sha256/", 0o755, nil},
	}
	for _, data := range [][]byte{config, layer, manifest} {
		whole = append(whole, file{blob(data), 0o644, data})
	}
	data, err := tarred(whole, r.when)
	if err != nil {
		return err
	}
	return os.WriteFile(r.name(t, "_image.tar"), data, 0o644)
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// blob is where a layout has what has this digest.
func blob(data []byte) string { return fmt.Sprintf("blobs/sha256/%x", sha256.Sum256(data)) }

// encoded returns JSON, in which the keys of objects are sorted.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only strings, numbers and maps of them
	}
	return data
}
