// Package containers plays the conformance suite on servers in containers, as somebody's own pipeline would: on the
// official images, which may be of another version than the drivers are developed on. It is for machines with a
// container engine; `make test` does without.
//
//	make test-containers                        what TURNWISE_ZOOKEEPER_IMAGE and TURNWISE_ETCD_IMAGE name
//	make test-containers IMAGES=local           images that scripts/images.sh builds here, where no registry is in reach
package containers
