// What the tests of single parts import; modules.mjs bundles it.
export * from "../src/bytes.ts";
export * from "../src/client_view.ts";
export * from "../src/copy.ts";
export * from "../src/json_path.ts";
export * from "../src/origin.ts";
export * from "../src/place.ts";
export * from "../src/recording.ts";
export * from "../src/chat.ts";
export { EventDecoder } from "../src/api.ts";
export { continues } from "../src/conversation.ts";
export { isFailed, isUnfinished } from "../src/list.tsx";
export { visible } from "../src/parts.tsx";
export { rowsOf as waterfallRows } from "../src/waterfall.tsx";
