package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// These are the parts of CycloneDX 1.5 that we say.
type (
	billOfMaterials struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// bill writes which modules the program contains: what it says itself, as `go version -m` shows it.
func (r *release) bill(t target, program string, data []byte) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	self := part("application", info.Main.Path, "v"+r.version)
	self.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}
	b := billOfMaterials{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata:     metadata{r.when.Format(time.RFC3339), self},
		Components:   []component{part("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))},
		Dependencies: []dependency{{Ref: self.Ref}},
	}
	for _, m := range info.Deps {
		version := m.Version
		switch {
		case m.Replace != nil && strings.HasPrefix(m.Replace.Path, "."): // ours
			version = "v" + r.version
		case m.Replace != nil:
			return fmt.Errorf("%s is replaced by %s: which one is listed?", m.Path, m.Replace.Path)
		}
		b.Components = append(b.Components, part("library", m.Path, version))
	}
	for _, c := range b.Components {
		b.Dependencies[0].DependsOn = append(b.Dependencies[0].DependsOn, c.Ref)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(b); err != nil {
		return err
	}
	return os.WriteFile(r.name(t, ".cdx.json"), out.Bytes(), 0o644)
}

func part(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
