// Package containers runs the conformance suite on servers in containers, as a user's own pipeline would: on the official
// images, whose versions may differ from those that the drivers are developed on. It needs a container engine; `make test`
// does without it.
//
//	make test-containers                        on the images that TURNWISE_ZOOKEEPER_IMAGE and TURNWISE_ETCD_IMAGE name
//	make test-containers IMAGES=local           on images that scripts/images.sh builds here, where no registry is in reach
package containers
