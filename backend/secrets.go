package backend

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// password says where a password is.
type password struct{ inline, file, env string }

func (t *target) password() (password, error) {
	p := password{t.inline, t.params.text("password-file"), t.params.text("password-env")}
	said := 0
	for _, where := range []string{p.inline, p.file, p.env} {
		if where != "" {
			said++
		}
	}
	switch {
	case said > 1:
		return p, errors.New("it names more than one password: keep one of the URL's own, password-file and password-env")
	case said > 0 && t.user == "" && t.scheme != "redis" && t.scheme != "nats": // they have a default user, and tokens
		return p, errors.New("there is a password and no user: write user@host")
	}
	return p, nil
}

// read returns the password; "" if there is none.
func (p password) read() (string, error) {
	switch {
	case p.file != "":
		text, err := os.ReadFile(p.file)
		if err != nil {
			return "", unreadable{fmt.Errorf("password-file: %w", err)}
		}
		secret := strings.TrimRight(string(text), "\r\n")
		if secret == "" {
			return "", unreadable{fmt.Errorf("password-file: %s is empty", p.file)}
		}
		return secret, nil
	case p.env != "":
		secret := os.Getenv(p.env)
		if secret == "" {
			return "", unreadable{fmt.Errorf("password-env: the variable %s is not set", p.env)}
		}
		return secret, nil
	}
	return p.inline, nil
}

// encryption is how connections are encrypted, if at all.
type encryption struct {
	on                        bool
	ca, cert, key, serverName string
}

func (t *target) encryption() (encryption, error) {
	e := encryption{
		on: t.params.yes("tls"), ca: t.params.text("ca"), cert: t.params.text("cert"), key: t.params.text("key"),
		serverName: t.params.text("server-name"),
	}
	some := e.ca + e.cert + e.key + e.serverName
	switch {
	case (e.cert == "") != (e.key == ""):
		return e, errors.New("cert and key go together")
	case some != "" && !e.on && t.params.values.Has("tls"):
		return e, errors.New("tls=no, and yet there are certificates to use")
	}
	e.on = e.on || some != ""
	return e, nil
}

// config returns nil if nothing is to be encrypted.
func (e encryption) config() (*tls.Config, error) {
	if !e.on {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.serverName}
	if e.ca != "" {
		pem, err := os.ReadFile(e.ca)
		if err != nil {
			return nil, unreadable{fmt.Errorf("ca: %w", err)}
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, unreadable{fmt.Errorf("ca: there is no certificate in %s, as PEM", e.ca)}
		}
	}
	if e.cert != "" {
		pair, err := tls.LoadX509KeyPair(e.cert, e.key)
		if err != nil {
			return nil, unreadable{fmt.Errorf("cert and key: %w", err)}
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// access is what a client needs to be let in, and how it gets there without being overheard.
type access struct {
	user     string
	password password
	encryption
	cleartext bool
}

func (t *target) access() (access, error) {
	p, err := t.password()
	if err != nil {
		return access{}, err
	}
	e, err := t.encryption()
	return access{t.user, p, e, t.params.yes("cleartext")}, err
}

// read returns the password and how to encrypt.
func (a access) read() (password string, cfg *tls.Config, err error) {
	if password, err = a.password.read(); err == nil {
		cfg, err = a.config()
	}
	return password, cfg, err
}
