package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are those of a cluster and its clients, all from one authority. The files are PEM, which both ZooKeeper
// (by the name's ending) and etcd read.
type certificates struct {
	authority string // the authority's certificate
	server    string // key and certificate in one file
	client    *tls.Config
}

// TLSConfig returns what a client needs if the cluster was started with [TLS], and nil otherwise.
func (c *Cluster) TLSConfig() *tls.Config {
	if c.certs == nil {
		return nil
	}
	return c.certs.client.Clone()
}

func makeCertificates(dir string) (*certificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "turnwise test authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityKey, authorityPEM, err := issue(authority, authority, nil)
	if err != nil {
		return nil, err
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	_, serverPEM, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: both, // etcd's gateway is a client of its own server
	}, authority, authorityKey)
	if err != nil {
		return nil, err
	}
	_, clientPEM, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "client"},
		ExtKeyUsage: both,
	}, authority, authorityKey)
	if err != nil {
		return nil, err
	}

	c := &certificates{
		authority: filepath.Join(dir, "authority.pem"),
		server:    filepath.Join(dir, "server.pem"),
		client:    &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", MinVersion: tls.VersionTLS12},
	}
	// The authority's PEM holds its key too; others may see only the certificate.
	certificate := authorityPEM[bytes.Index(authorityPEM, []byte("-----BEGIN CERTIFICATE")):]
	c.client.RootCAs.AppendCertsFromPEM(certificate)
	pair, err := tls.X509KeyPair(clientPEM, clientPEM)
	if err != nil {
		return nil, err
	}
	c.client.Certificates = []tls.Certificate{pair}
	if err := os.WriteFile(c.authority, certificate, 0o600); err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.server, serverPEM, 0o600)
}

// issue makes a key and has the parent sign a certificate for it; without the parent's key it signs itself. The PEM
// holds the key, then the certificate.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parentKey == nil {
		parentKey = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return key, append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...), nil
}
