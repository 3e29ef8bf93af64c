// Makes one page: PAGE=app (the inspector) or PAGE=home. Each is one script and one style sheet with a fixed name, because
// the server has one route for each; build.sh calls this once for each page and copies its HTML.
import { defineConfig } from "vite";

const page = process.env.PAGE ?? "app";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: process.env.OUT ?? "dist",
    emptyOutDir: false,
    target: "es2022",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      input: `src/${page}.tsx`,
      output: {
        format: "es",
        codeSplitting: false,
        entryFileNames: `${page}.js`,
        assetFileNames: `${page}[extname]`,
      },
    },
  },
});
