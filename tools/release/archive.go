package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"strings"
	"time"
)

// archive writes the program and its texts, in a folder: as tar.gz, and as zip for Windows.
func (r *release) archive(t target, program []byte) error {
	folder := "turnwise-" + r.version + "/"
	binary := folder + "turnwise"
	if t.os == "windows" {
		binary += ".exe"
	}
	files := []file{{binary, 0o755, program}}
	for _, f := range r.texts {
		files = append(files, file{folder + f.name, f.mode, f.data})
	}
	if t.os == "windows" {
		data, err := zipped(files, r.when)
		if err != nil {
			return err
		}
		return os.WriteFile(r.name(t, ".zip"), data, 0o644)
	}
	data, err := tarred(files, r.when)
	if err != nil {
		return err
	}
	return os.WriteFile(r.name(t, ".tar.gz"), gzipped(data), 0o644)
}

// tarred returns a tar archive. Names that end in / are folders; those of home belong to the image's user.
func tarred(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: when, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if strings.HasPrefix(f.name, home) {
			h.Uid, h.Gid = user, user
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func zipped(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipped writes neither a name nor a time into the header.
func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data) // a buffer takes everything
	w.Close()
	return b.Bytes()
}
