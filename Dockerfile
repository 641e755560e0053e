# The command line as an image that holds one static program, the certificates of public authorities, and nothing else.
#
#   docker build -t pgqueue .
#   docker run --rm -e DATABASE_URL pgqueue migrate up
#   docker run --rm -e DATABASE_URL -v "$PWD/users:/users:ro" -p 127.0.0.1:8080:8080 pgqueue \
#       serve --users /users --listen :8080 --behind-proxy --allowed-host localhost
#
# The build takes its modules as any Go build does: from the proxy that GOPROXY names (--build-arg GOPROXY=…), from a
# directory vendor of the context (go mod vendor before; then it needs no network), or from the usual places. BUILDER names another image
# with Go and certificates.

# The builder runs on the machine at hand and compiles for the platform of the image: no emulator is needed.
ARG BUILDER=golang:1.26
FROM --platform=$BUILDPLATFORM ${BUILDER} AS build
ARG GOPROXY
ARG GOSUMDB
ARG GOFLAGS
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY . .
# GOTOOLCHAIN=local: the image's Go is the one to use, or an error, and not a download.
RUN CGO_ENABLED=0 GOTOOLCHAIN=local GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags '-s -w' -o /out/pgqueue ./cmd/pgqueue

FROM scratch
LABEL org.opencontainers.image.title="pgqueue" \
      org.opencontainers.image.description="The command line and the web console of pgqueue, a job framework on Postgres" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/pgqueue /pgqueue
# A user by number, so that a platform can see that it is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/pgqueue"]
